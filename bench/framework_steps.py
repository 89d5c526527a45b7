#!/usr/bin/env python3
"""One program of frameworks.py: warms up, prints a result, then does as many steps as each line of
stdin says and prints how long each took, in milliseconds. A step ends with its loss or token on the
host."""
import json
import pathlib
import sys
import time

import torch
from torch import nn

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "tests/gpu/cases")]
import models  # noqa: E402

WARM_UP = 10


def resnet50_train():
    """Batch 32, fp32."""
    torch.backends.cudnn.deterministic = True
    model = models.resnet50().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x = torch.randn(32, 3, 224, 224, device="cuda")
    y = torch.randint(0, 1000, (32,), device="cuda")
    return lambda: models.train_step(model, optimizer,
                                     lambda m: nn.functional.cross_entropy(m(x), y))


def gpt2_train():
    """4 sequences of 512 tokens, fp32 with TF32 products."""
    torch.backends.cuda.matmul.allow_tf32 = True
    model = models.GPT2().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    tokens = torch.randint(0, 50257, (4, 513), device="cuda")
    return lambda: models.train_step(model, optimizer, models.gpt2_loss(tokens))


def gpt2_decode_fp16():
    """One step is one token."""
    model = models.GPT2().cuda().half().eval()
    prompt = torch.randint(0, 50257, (1, 64), device="cuda")
    state = {}

    @torch.no_grad()
    def step():
        if "pasts" not in state or state["pasts"][0][0].shape[2] > 512:
            logits, state["pasts"] = model(prompt)
        else:
            logits, state["pasts"] = model(state["token"], state["pasts"])
        state["token"] = logits[:, -1:].argmax(2)
        return state["token"]

    return step


def tiny_mlp_train():
    model = models.tiny_mlp().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(64, 32, device="cuda")
    return lambda: models.train_step(model, optimizer, lambda m: m(x).square().mean())


def say(value):
    sys.stdout.write("@steps %s\n" % json.dumps(value))
    sys.stdout.flush()


def main():
    torch.manual_seed(0)
    step = globals()[sys.argv[1]]()
    results = [step().detach() for _ in range(WARM_UP)]
    say([round(float(value), 3) for value in results])
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            started = time.perf_counter()
            float(step().detach())
            times.append((time.perf_counter() - started) * 1000)
        say(times)


if __name__ == "__main__":
    main()
