"""Makes golden.gguf and golden.safetensors of this folder with the Python packages gguf and safetensors:

    pip install gguf numpy safetensors && python test/gguf/makeGolden.py

golden.gguf has a metadata pair of every type and a tensor of every element type that is read: Q8_0 and Q4_0 to Q5_1 quantized
by the package, those of K of random bytes under scales of every size (the package has no quantizer for them).
golden.safetensors has what the package dequantizes them to, F32.
"""
import pathlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Q
from gguf import GGUFValueType as V
from safetensors.numpy import save_file

folder = pathlib.Path(__file__).parent
random = np.random.default_rng(7)
writer = gguf.GGUFWriter(folder / "golden.gguf", "llama")
writer.add_uint8("test.u8", 200)
writer.add_int8("test.i8", -100)
writer.add_uint16("test.u16", 60000)
writer.add_int16("test.i16", -30000)
writer.add_uint32("test.u32", 4000000000)
writer.add_int32("test.i32", -2000000000)
writer.add_float32("test.f32", 1e-5)
writer.add_float64("test.f64", 0.1)
writer.add_uint64("test.u64", 2**63)
writer.add_int64("test.i64", -(2**53))
writer.add_bool("test.bool", True)
writer.add_string("test.text", "naïve 🦙\n")
writer.add_array("test.words", ["a", "", "ß"])
writer.add_array("test.counts", [1, -2, 3])
writer.add_array("test.scores", [0.5, -1.5])
writer.add_array("test.flags", [True, False])
writer.add_array("test.nested", [[1, 2], [3]])

expected = {}


def add(name, data, kind, shape):
    writer.add_tensor(name, data, raw_dtype=kind)
    expected[name] = gguf.dequantize(data, kind).astype(np.float32).reshape(shape)


values = (random.standard_normal((3, 256)) * np.exp(random.uniform(-9, 5, (3, 1)))).astype(np.float32)
values[1, 32:64] = 0
writer.add_tensor("f32", values)
expected["f32"] = values
half = values.astype(np.float16)
writer.add_tensor("f16", half)
expected["f16"] = half.astype(np.float32)
for kind in (Q.BF16, Q.Q8_0, Q.Q4_0, Q.Q4_1):
    add(kind.name.lower(), gguf.quantize(values, kind), kind, values.shape)


def scales(count):
    """Float16 of every size but infinities and NaN, the first of them a denormal."""
    bits = random.integers(0, 0x7C00, count).astype(np.uint16) | (random.integers(0, 2, count).astype(np.uint16) << 15)
    bits[0] = 3
    return bits.view(np.uint8).reshape(count, 2)


blocks = 12
q4_k = random.integers(0, 256, (blocks, 144), dtype=np.uint8)
q4_k[:, 0:2], q4_k[:, 2:4] = scales(blocks), scales(blocks)
add("q4_k", q4_k.reshape(4, 3 * 144), Q.Q4_K, (4, 768))
q6_k = random.integers(0, 256, (blocks, 210), dtype=np.uint8)
q6_k[:, 208:210] = scales(blocks)
add("q6_k", q6_k.reshape(2, 2, 3 * 210), Q.Q6_K, (2, 2, 768))

for kind in (Q.Q5_0, Q.Q5_1):
    add(kind.name.lower(), gguf.quantize(values, kind), kind, values.shape)
# Bytes of a block, and where its float16 scales begin.
for kind, size, places in ((Q.Q2_K, 84, (80, 82)), (Q.Q3_K, 110, (108,)), (Q.Q5_K, 176, (0, 2))):
    data = random.integers(0, 256, (6, size), dtype=np.uint8)
    for place in places:
        data[:, place : place + 2] = scales(6)
    add(kind.name.lower(), data.reshape(2, 3 * size), kind, (2, 768))

writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
save_file(expected, folder / "golden.safetensors")
