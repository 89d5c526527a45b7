"""The steps of a few PyTorch programs, as users write them, timed. Prints a JSON object a line:
`name`, `ms` (the median step), `bytes` that a step copies from memory of the host, and `waits`: how
often the program itself waits for the device in a step.

  framework_steps.py [--steps=N] [NAME ...]

bench/network/frameworks.py runs it natively and from another host.
"""
import argparse
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).absolute().parents[2] / "tests/gpu/cases"))
import torch  # noqa: E402
from torch.nn import functional  # noqa: E402

import models  # noqa: E402

IMAGES = (32, 3, 224, 224)  # 19 MB


def gpt2_decoding():
    """Reads each token, as a server does that streams them."""
    model = models.GPT2().half().cuda().eval()
    prompt = torch.randint(0, 50257, (1, 64)).cuda()
    state = {}

    @torch.no_grad()
    def step():
        if "pasts" not in state or state["pasts"][0][0].shape[2] > 400:
            logits, state["pasts"] = model(prompt)
        else:
            logits, state["pasts"] = model(state["token"], state["pasts"])
        state["token"] = logits[:, -1:].argmax(2)
        return state["token"].item()
    return step, 0, 1


def gpt2_training():
    model = models.GPT2().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loss_of = models.gpt2_loss(torch.randint(0, 50257, (4, 257)).cuda())
    return lambda: models.train_step(model, optimizer, loss_of), 0, 0


def resnet50_pageable():
    """Each batch comes from pageable memory, and its copy returns before the device has it."""
    model = models.resnet50().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    images, labels = torch.randn(IMAGES), torch.randint(0, 1000, IMAGES[:1])

    def step():
        batch, wanted = images.cuda(), labels.cuda()
        return models.train_step(model, optimizer,
                                 lambda it: functional.cross_entropy(it(batch), wanted))
    return step, images.nbytes, 0


def tiny_mlp():
    model = models.tiny_mlp().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    inputs, labels = torch.randn(64, 32).cuda(), torch.randint(0, 10, (64,)).cuda()
    loss_of = lambda it: functional.cross_entropy(it(inputs), labels)  # noqa: E731
    return lambda: models.train_step(model, optimizer, loss_of).item(), 0, 1


PROGRAMS = {each.__name__: each
            for each in (gpt2_decoding, gpt2_training, resnet50_pageable, tiny_mlp)}


def measure(name, steps):
    torch.manual_seed(1)
    step, copied, waits = PROGRAMS[name]()
    for _ in range(max(steps // 5, 5)):
        step()
    torch.cuda.synchronize()
    times = []
    for _ in range(5):
        # A step that waits for nothing is timed by many of its kind.
        begun = time.perf_counter()
        for _ in range(max(steps // 5, 1)):
            step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begun) / max(steps // 5, 1) * 1e3)
    print(json.dumps({"name": name, "ms": statistics.median(times), "bytes": copied,
                      "waits": waits}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PROGRAMS))
    args = parser.parse_args()
    for name in args.names or PROGRAMS:
        measure(name, args.steps)


if __name__ == "__main__":
    main()
