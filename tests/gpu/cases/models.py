"""ResNet-50, GPT-2 (124 M) and a tiny MLP, as small as they can be written with PyTorch."""
import torch
from torch import nn
from torch.nn import functional


class Bottleneck(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        outside = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, outside, 1, bias=False), nn.BatchNorm2d(outside))
        self.shortcut = nn.Identity()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False),
                                          nn.BatchNorm2d(outside))

    def forward(self, x):
        return functional.relu(self.body(x) + self.shortcut(x), inplace=True)


def resnet50(classes=1000):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(count):
            layers.append(Bottleneck(inside, width, stride if number == 0 else 1))
            inside = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, classes))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, past=None):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).chunk(3, 2))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh")), (k, v)


class GPT2(nn.Module):
    """Defaults are those of the smallest GPT-2: 124 million parameters with tied embeddings."""

    def __init__(self, layers=12, heads=12, width=768, vocabulary=50257, context=1024):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, pasts=None):
        start = pasts[0][0].shape[2] if pasts else 0
        places = torch.arange(start, start + tokens.shape[1], device=tokens.device)
        x, kept = self.tokens(tokens) + self.places(places), []
        for number, block in enumerate(self.blocks):
            x, past = block(x, pasts[number] if pasts else None)
            kept.append(past)
        return self.head(self.norm(x)), kept

    @torch.no_grad()
    def generate(self, tokens, count):
        """The `count` likeliest tokens behind `tokens`, one after the other, with kept keys."""
        logits, pasts = self(tokens)
        found = []
        for _ in range(count):
            tokens = logits[:, -1:].argmax(2)
            found.append(tokens)
            logits, pasts = self(tokens, pasts)
        return torch.cat(found, 1)


def train_step(model, optimizer, loss_of):
    optimizer.zero_grad(set_to_none=True)
    loss = loss_of(model)
    loss.backward()
    optimizer.step()
    return loss


def gpt2_loss(tokens):
    def loss_of(model):
        logits = model(tokens[:, :-1])[0]
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    return loss_of


def tiny_mlp():
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
                         nn.Linear(64, 10))
