"""The matrix-multiply rates that PyTorch (oneDNN, MKL) reaches on this CPU: one JSON line a shape, best of one second each.

    python torch_gemm.py [--threads N] [--seconds 1]
"""

from __future__ import annotations

import argparse
import json
import time

import torch
from workload import physical_cores

SHAPES = [(4096, 512, 1408), (4096, 512, 8192), (2048, 2048, 2048)]  # M, K, N


def best_seconds(call, budget: float) -> float:
    """The fastest of all calls that fit the budget (seconds), after one to warm up."""
    call()
    best = float("inf")
    end = time.perf_counter() + budget
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(physical_cores()))
    parser.add_argument("--seconds", type=float, default=1.0, help="budget of each measurement")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for dtype in (torch.bfloat16, torch.float32):
        for m, k, n in SHAPES:
            x = torch.randn(m, k).to(dtype)
            weight = torch.randn(n, k).to(dtype)
            gradient = torch.randn(m, n).to(dtype)
            calls = {
                "forward": lambda: x @ weight.T,
                "inputGradient": lambda: gradient @ weight,
                "weightGradient": lambda: gradient.T @ x,
            }
            gflops = {name: round(2e-9 * m * k * n / best_seconds(call, arguments.seconds), 1) for name, call in calls.items()}
            print(json.dumps({"dtype": str(dtype).removeprefix("torch."), "m": m, "k": k, "n": n, "gflopsPerSecond": gflops}), flush=True)


main()
