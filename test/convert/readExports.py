"""Logits of the models in folders, as transformers computes them: python readExports.py IDS FOLDER… ; prints one JSON line.

IDS is a JSON list of token ids. Of each folder: float32 logits of the last position, the dtype of the loaded weights, and what
the loader said of missing or unexpected ones; of folders with a tokenizer, ids of a text.
"""
import json
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def read(folder, ids):
    model, loading = AutoModelForCausalLM.from_pretrained(folder, dtype="auto", output_loading_info=True)
    dtype = str(next(model.parameters()).dtype)
    with torch.no_grad():
        logits = model.float().eval()(torch.tensor([ids])).logits[0, -1]
    found = {"logits": logits.tolist(), "dtype": dtype}
    found["loading"] = {key: sorted(map(str, value)) for key, value in loading.items() if value}
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except Exception:
        return found
    return {**found, "text": tokenizer.encode("naïve café, 1234!", add_special_tokens=False), "eos": tokenizer.eos_token}


ids, *folders = sys.argv[1:]
print(json.dumps([read(folder, json.loads(ids)) for folder in folders]))
