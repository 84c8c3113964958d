"""Linear layers with emulated low precision, as PyTorch's libraries offer them: what README.md says of each is made here.

`build(name)` gives a function (x [batch, seq, in] BF16, weight [out, in] FP32 master) -> [batch, seq, out] BF16 whose forward
and backward GEMMs run on quantized values. Import it after the process has its environment: it imports torch.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from typing import Callable

import torch


@dataclass(frozen=True)
class Quantization:
    """How a peer quantizes, and how it runs fastest on a CPU."""

    make: Callable[[], Callable]
    """Imports the library and gives the linear function."""
    compiled: bool = True
    """Whether torch.compile takes the layer; otherwise it runs eagerly between compiled parts."""


def torchao_mx(element: str):
    """MX blocks of 32 along the contracted dim, scales rounded up (RCEIL), all three GEMMs, to nearest even."""

    def make():
        from torchao.prototype.moe_training.mxfp8_linear import mx_mm
        from torchao.prototype.mx_formats.config import MXFP8Dim0CastKernelChoice, MXFP8Dim1CastKernelChoice, ScaleCalculationMode
        from torchao.quantization.quantize_.common.kernel_preference import KernelPreference

        dtype = getattr(torch, element)
        if dtype == torch.float4_e2m1fn_x2:
            # Inductor's loop splitting fails on the transposed blocks of packed FP4; without it they compile.
            from torch._inductor.codegen.cpp import CppScheduling

            CppScheduling.try_loop_split = lambda self, nodes: nodes
        settings = (dtype, dtype, dtype, 32, KernelPreference.EMULATED)
        kernels = (MXFP8Dim0CastKernelChoice.TORCH, MXFP8Dim1CastKernelChoice.TORCH, ScaleCalculationMode.RCEIL, False)
        return lambda x, weight: mx_mm.apply(x, weight.to(x.dtype), *settings, *kernels)

    return make


def torchao_float8(recipe: str):
    """E4M3 values and weights; one current scale a tensor (gradients E5M2) or a row (gradients E4M3, weight gradient as well)."""

    def make():
        import dataclasses

        from torchao.float8 import Float8LinearConfig
        from torchao.float8.float8_linear import Float8Linear, matmul_with_hp_or_float8_args

        config = dataclasses.replace(Float8LinearConfig.from_recipe_name(recipe), emulate=True)
        gemms = Float8Linear.from_float(torch.nn.Linear(16, 16, bias=False), config=config).linear_mm_config
        return lambda x, weight: matmul_with_hp_or_float8_args.apply(x, weight.to(x.dtype).t(), gemms, config)

    return make


def microxcaling(element: str, gradients: str = "even"):
    """MX blocks of 32 along the contracted dim, scales by floor, all three GEMMs; `gradients` rounds dy ("dither": stochastically)."""

    def make():
        import mx

        # It sets CUDA's matmul precision and does nothing on a CPU, but torch.compile stops at it.
        sys.modules["mx.linear"].set_matmul_precision = lambda *arguments: contextlib.nullcontext()
        formats = {"w_elem_format": element, "a_elem_format": element, "scale_bits": 8, "block_size": 32}
        dy = {"round_mx_grad_output_grad_input": gradients, "round_mx_grad_output_grad_weight": gradients}
        specs = mx.finalize_mx_specs({**formats, "round": "even", **dy, "custom_cuda": False})
        # Fills its cache of formats, whose growth would make torch.compile compile again in the second step.
        mx.linear(torch.zeros(32, 32), torch.zeros(32, 32), mx_specs=specs)
        return lambda x, weight: mx.linear(x, weight.to(x.dtype), mx_specs=specs)

    return make


def fouroversix(scale_rule: str):
    """NVFP4 with blocks of 16, weights 16 x 16, dy stochastic, a random Hadamard transform for the weight gradient."""

    def make():
        import fouroversix.quantize.pytorch.backend as backend
        from fouroversix import ModuleQuantizationConfig
        from fouroversix.model.modules.linear import FourOverSixLinearFunction

        # The PyTorch backend asks for the transform on a GPU.
        transform = backend.get_rht_matrix(device="cpu")
        backend.get_rht_matrix = lambda: transform
        config = ModuleQuantizationConfig(keep_master_weights=True, weight_scale_2d=True, scale_rule=scale_rule)

        def linear(x, weight):
            batch, seq, inputs = x.shape
            # Its backward takes a batch of 1.
            y = FourOverSixLinearFunction.apply(config, x.reshape(1, batch * seq, inputs), weight, None)
            return y.reshape(batch, seq, -1)

        return linear

    return make


QUANTIZATIONS = {
    "torchao-fp8": Quantization(torchao_float8("tensorwise")),
    "torchao-fp8-rowwise": Quantization(torchao_float8("rowwise")),
    "torchao-mxfp8": Quantization(torchao_mx("float8_e4m3fn")),
    "torchao-mxfp4": Quantization(torchao_mx("float4_e2m1fn_x2")),
    "microxcaling-mxfp8": Quantization(microxcaling("fp8_e4m3")),
    "microxcaling-mxfp4": Quantization(microxcaling("fp4_e2m1")),
    "microxcaling-mxfp4-sr": Quantization(microxcaling("fp4_e2m1", "dither")),
    "fouroversix-nvfp4": Quantization(fouroversix("static_6"), compiled=False),
    "fouroversix-nvfp4-4over6": Quantization(fouroversix("mse"), compiled=False),
}


def build(name: str):
    """The linear function of a name in QUANTIZATIONS; ends the process where its library is not installed."""
    quantization = QUANTIZATIONS[name]
    try:
        linear = quantization.make()
    except ImportError as error:
        sys.exit(f"--quantized {name}: {error}; `bash bench/peers/setup.sh` installs it or says why it can't")
    if quantization.compiled:
        return linear
    eager = torch.compiler.disable(linear)
    eager.runs_eagerly = True  # so that its block may be compiled in parts
    return eager
