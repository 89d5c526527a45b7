#!/usr/bin/env python3
"""One program of frameworks.py: warms up, prints a result, then does as many steps as each line of
stdin says and prints how long each took, in milliseconds. A line may also say for how many seconds
to go on ("2.5 s"), and every how many milliseconds a step is due ("2.5 s every 10 ms"); a step's time is
then from when it was due. A step ends with its loss, token or class on the host."""
import itertools
import json
import pathlib
import sys
import time

import torch
from torch import nn

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "tests/gpu/cases")]
import models  # noqa: E402

WARM_UP = 10
# So long a paced program is under way before its steps count.
PACE_S = 1.0


def resnet50(batches):
    """Batch 32, fp32. `batches` gives the images and labels of a step, on the device."""
    torch.backends.cudnn.deterministic = True
    model = models.resnet50().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step():
        x, y = next(batches)
        return models.train_step(model, optimizer, lambda m: nn.functional.cross_entropy(m(x), y))

    return step


def images(count):
    return torch.randn(count, 3, 224, 224), torch.randint(0, 1000, (count,))


def resnet50_train():
    """The batch lies on the device."""
    batch = [part.cuda() for part in images(32)]
    return resnet50(itertools.repeat(batch))


def resnet50_pageable():
    """The batch of 19 MB comes from pageable memory."""
    batches = [images(32) for _ in range(4)]
    return resnet50([part.cuda() for part in batch] for batch in itertools.cycle(batches))


def resnet50_loader():
    """The batch comes from a DataLoader that pins it, and is copied without waiting."""
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*images(32 * 16)),
                                         batch_size=32, pin_memory=True, num_workers=0)

    def batches():
        while True:
            for batch in loader:
                yield [part.cuda(non_blocking=True) for part in batch]

    return resnet50(batches())


def resnet50_infer():
    """One image from the host, fp16; what it shows is read back."""
    model = models.resnet50().cuda().half().eval()
    image = images(1)[0].half()

    @torch.no_grad()
    def step():
        return model(image.cuda()).argmax()

    return step


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


def gpt2_generate():
    """One step is one token of the generate() of transformers, fp16, 64 tokens at a time."""
    import transformers  # pylint: disable=import-outside-toplevel
    config = transformers.GPT2Config()  # Its weights are random; 50256 would end a text.
    model = transformers.GPT2LMHeadModel(config).cuda().half().eval()
    prompt = torch.randint(0, 50256, (1, 64), device="cuda")
    state = {"left": []}

    @torch.no_grad()
    def step():
        if not state["left"]:
            made = model.generate(prompt, max_new_tokens=64, min_new_tokens=64, do_sample=False,
                                  pad_token_id=50256)
            state["left"] = made[0, prompt.shape[1]:].tolist()
        return torch.tensor(state["left"].pop(0))

    step.of = 64
    return step


def tiny_mlp_train():
    model = models.tiny_mlp().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(64, 32, device="cuda")
    return lambda: models.train_step(model, optimizer, lambda m: m(x).square().mean())


def say(value):
    sys.stdout.write("@steps %s\n" % json.dumps(value))
    sys.stdout.flush()


def paced(step, seconds, every_ms):
    """Milliseconds of each step, from when it was due, after a while that is not counted. Steps that
    are late are made one after the other."""
    times, begun = [], time.perf_counter() + PACE_S
    while time.perf_counter() < begun:
        float(step().detach())
        time.sleep(every_ms / 1000)
    begun = time.perf_counter()
    for number in itertools.count():
        due = begun + number * every_ms / 1000
        if due >= begun + seconds:
            return times
        time.sleep(max(0, due - time.perf_counter()))
        float(step().detach())
        times.append((time.perf_counter() - due) * 1000)


def main():
    torch.manual_seed(0)
    step = globals()[sys.argv[1]]()
    # Steps that are made together are timed together.
    of = getattr(step, "of", 1)
    results = [step().detach() for _ in range(max(WARM_UP, of))]
    say([round(float(value), 3) for value in results])
    for line in sys.stdin:
        words = line.split()
        if "every" in words:
            say(paced(step, float(words[0]), float(words[3])))
            continue
        times = []
        seconds = float(words[0]) if line.strip().endswith("s") else None
        end = time.perf_counter() + (seconds or 0)
        while time.perf_counter() < end if seconds is not None else len(times) < int(line):
            started = time.perf_counter()
            for _ in range(of):
                float(step().detach())
            times += [(time.perf_counter() - started) * 1000 / of] * of
        say(times)


if __name__ == "__main__":
    main()
