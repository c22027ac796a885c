"""Muon for matrices (Jordan et al., 2024): momentum, orthogonalized by Newton-Schulz.

Matrices of equal shape are orthogonalized together, as one batch. Embeddings and norms use AdamW.
"""

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
PEAK_LR = 0.02


def orthogonalize(g: Tensor, steps: int = 5) -> Tensor:
    """Approximates the nearest semi-orthogonal matrices (singular values 0.7 to 1.2). g [n, rows, columns]."""
    a, b, c = COEFFICIENTS
    tall = g.shape[1] > g.shape[2]
    x = g.transpose(1, 2) if tall else g
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        s = x @ x.transpose(1, 2)
        x = a * x + torch.baddbmm(b * s, s, s, alpha=c) @ x
    return x.transpose(1, 2) if tall else x


class Muon(torch.optim.Optimizer):
    """A step adds −lr · sqrt(max(1, rows / columns)) times the orthogonalized momentum."""

    def __init__(self, parameters, lr: float, momentum: float = 0.95):
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            by_shape: dict[torch.Size, list] = {}
            for p in group["params"]:
                if p.grad is not None:
                    by_shape.setdefault(p.shape, []).append(p)
            for shape, parameters in by_shape.items():
                self._step_stack(group, shape, parameters)

    def _step_stack(self, group: dict, shape: torch.Size, parameters: list) -> None:
        for p in parameters:
            state = self.state[p]
            if not state:
                state["momentum"] = torch.zeros_like(p)
            state["momentum"].lerp_(p.grad, 1 - group["momentum"])
        nesterov = [p.grad.lerp(self.state[p]["momentum"], group["momentum"]) for p in parameters]
        updates = orthogonalize(torch.stack(nesterov))
        scale = max(1.0, shape[0] / shape[1]) ** 0.5
        for p, update in zip(parameters, updates):
            p.add_(update, alpha=-group["lr"] * scale)


def optimizers(model: torch.nn.Module, adam_lr: float) -> list[torch.optim.Optimizer]:
    """Muon for layer matrices and `fc`, AdamW for the rest. Each group stores its peak lr as `base_lr`."""
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    matrices = [p for n, p in named if p.dim() == 2 and "embed" not in n]
    rest = [p for n, p in named if p.dim() != 2 or "embed" in n]
    optimizer_pair = [
        Muon(matrices, lr=PEAK_LR),
        torch.optim.AdamW(rest, lr=adam_lr, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.0),
    ]
    for optimizer in optimizer_pair:
        for group in optimizer.param_groups:
            group["base_lr"] = group["lr"]
    return optimizer_pair
