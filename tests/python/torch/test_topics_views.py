# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Views of arguments and of intermediates, in-place changes, strides and shared memory of results."""

import torch
from common import main
from topics import case, topic

torch.manual_seed(0)
x, square, cube = torch.randn(4, 6), torch.randn(5, 5), torch.randn(2, 3, 4)
gaps = torch.randn(4, 12)[:, ::2]
whole = torch.arange(24).view(4, 6)


def written(value):
    """Through a view of an intermediate: both results must show it."""
    base = value.exp()
    view = base[1:3]
    view.mul_(2)
    return base, view


def two_views(value):
    base = value.exp()
    return base.view(-1), base.t()


def chain(value):
    base = value * 2
    return base.transpose(0, 1)[1:], base


Intermediates = topic("Intermediates", {
    "flat view and base": case(lambda x: (y := x.exp(), y.view(-1)), x),
    "view alone": case(lambda x: x.exp().view(-1), x),
    "two views without the base": case(two_views, x),
    "transpose and base": case(chain, x),
    "slice with gaps": case(lambda x: x.exp()[:, 1:4], x),
    "every second row": case(lambda x: (x + 1)[::2], x),
    "every second column": case(lambda x: (x + 1)[:, ::2], x),
    "column": case(lambda x: (x * 3)[:, 2], x),
    "row": case(lambda x: (x * 3)[2], x),
    "expanded": case(lambda x: x.sum(0).expand(3, 6), x),
    "expanded in the middle": case(lambda x: x.sum(1, keepdim=True).expand(4, 7), x),
    "transposed slice": case(lambda x: x.exp()[1:, 1:].t(), x),
    "permuted": case(lambda c: (c.exp().permute(2, 0, 1), c.exp().permute(1, 2, 0)), cube),
    "diagonal": case(lambda s: s.exp().diagonal(), square),
    "diagonal and base": case(lambda s: (y := s.exp(), y.diagonal(1)), square),
    "split": case(lambda x: x.exp().split([2, 4], 1), x),
    "chunks": case(lambda x: (x + 1).chunk(3, 1), x),
    "chunks of rows": case(lambda x: (x + 1).chunk(2), x),
    "unbind": case(lambda c: c.exp().unbind(1), cube),
    "parts of parts": case(lambda c: c.exp().unbind(0)[1].chunk(2, 1)[0].t(), cube),
    "unsqueeze and squeeze": case(lambda x: (y := x.exp(), y.unsqueeze(1), y.unsqueeze(1).squeeze(1)), x),
    "as strided": case(lambda x: (x + 1).as_strided((3, 2), (6, 2), 1), x),
    "overlapping windows": case(lambda x: (x + 1).view(-1).unfold(0, 5, 2), x, fallback="silent"),
    "written through a view": case(written, x),
    "bits of another dtype": case(lambda x: (y := x * 2, y.view(torch.int32)), x),
    "bits of a narrower dtype": case(lambda x: (y := x * 2, y.view(torch.int16)[:, 1]), x, fallback="silent"),
    "the same view twice": case(lambda x: (y := x.exp().t(), y, y), x),
    "base twice": case(lambda x: (y := x.exp(), y.t(), y), x),
    "movedim": case(lambda c: (c * 2).movedim(0, 2), cube),
    "flatten and unflatten": case(lambda c: (y := c.exp(), y.flatten(1), y.unflatten(2, (2, 2))), cube),
    "swapaxes of a slice": case(lambda c: (c - 1)[:, :2].swapaxes(0, 2), cube),
    "select of a reduction": case(lambda c: c.sum(0)[1], cube),
    "size one dims": case(lambda x: (x[:, :1].exp().t(), x[:1].exp().t()), x),
    "narrow to nothing": case(lambda x: (x + 1).narrow(0, 2, 0), x),
    "view of a reshape that copies": case(lambda x: (y := x.t().reshape(-1), y[2:]), x),
    "expand of an expand": case(lambda x: x.sum().expand(3).unsqueeze(1).expand(3, 2), x),
    "contiguous of a slice": case(lambda x: (x + 1)[:, 1:3].contiguous(), x),
    "detached": case(lambda x: (y := x.exp(), y.detach()), x),
    "real part": case(lambda x: torch.view_as_real(torch.complex(x, x))[..., 0], x, fallback="silent"),
    "integers": case(lambda w: (y := w * 2, y[:, 1::2]), whole),
    "bools": case(lambda w: (y := w > 7, y.t()), whole),
})

Arguments = topic("Arguments", {
    "flat view": case(lambda x: x.view(-1), x),
    "view and sum": case(lambda x: (x.view(-1)[3:], x.sum()), x),
    "argument itself": case(lambda x: (x, x + 1), x),
    "argument twice": case(lambda x: (x, x, x.t()), x),
    "transposed": case(lambda x: (x.t(), x.exp()), x),
    "of an argument with gaps": case(lambda g: (g[1:], g.t(), g + 1), gaps),
    "of an argument with an offset": case(lambda x: (x.view(2, 4), x * 2), torch.randn(20)[5:13]),
    "of an argument with an offset, dynamic": case(lambda x: (x.view(2, -1), x * 2), torch.randn(20)[5:13], dynamic=True),
    "slice, dynamic": case(lambda x: (x[1:, ::2], x * 2), x, dynamic=True),
    "expanded": case(lambda x: x[0].expand(3, 6), x),
    "parts": case(lambda x: (*x.split(2, 1), x.mean()), x),
    "two arguments over one memory": case(lambda a, b: (a + b, a[0]), *(lambda t: (t[1:], t[:-1]))(torch.randn(5, 3))),
    "computing only views": case(lambda x: (x.t(), x[0], x.unsqueeze(0)), x),
    "a chain of views": case(lambda c: c.transpose(0, 1)[1].t()[1:3], cube),
    "zero elements": case(lambda x: (x[:0], x[:0] + 1), x),
})


def add_in_place(x, y):
    x.add_(y)
    return x * 2


def views_see_changes(x):
    view = x[1]
    x.mul_(2)
    view.add_(1)
    return view * 1, x.sum()


def change_a_view_of_an_intermediate(x):
    y = x * 1
    y[:, 1:3] = 7
    y[0].fill_(3)
    y.t()[2].sub_(1)
    return y


def change_diagonal(s):
    y = s.clone()
    y.diagonal().fill_(1)
    return y


def swap(x):
    y = x.clone()
    y[0], y[1] = x[1], x[0]
    return y


def several_results(x):
    a = x.exp()
    b = a.view(-1)
    b.add_(1)
    c = a[1]
    c.zero_()
    return a, b, c


def sums_in_place(x):
    total = torch.zeros(6)
    for row in x:
        total += row * row
    return total


def out_argument(x):
    out = torch.empty(4, 6)
    torch.add(x, 1, out=out)
    torch.mul(out, 2, out=out)
    return out


def resized(x):
    y = torch.zeros(4, 6)
    y.copy_(x[0])
    return y


InPlace = topic("InPlace", {
    "argument": case(add_in_place, x, x + 1),
    "argument by itself": case(add_in_place, *[x] * 2),
    "argument and its view": case(views_see_changes, x),
    "argument with gaps": case(lambda g: g.mul_(2).sum(), gaps),
    "slice of an argument": case(lambda x: x[1:3].mul_(2), x),
    "column of an argument": case(lambda x: (x[:, 1].add_(5), x.sum())[1], x),
    "slice of an argument with gaps": case(lambda g: g[1].zero_() + 1, gaps),
    "transposed argument": case(lambda x: x.t_().add_(1), square),
    "two arguments over one memory": case(lambda a, b: a.add_(1) + b, *(lambda t: (t[1:], t[:-1]))(torch.randn(5, 3))),
    "views of an intermediate": case(change_a_view_of_an_intermediate, x),
    "diagonal": case(change_diagonal, square),
    "rows swapped": case(swap, x),
    "several results": case(several_results, x),
    "accumulated": case(sums_in_place, x),
    "addcmul and addcdiv": case(lambda x, y: (x.addcmul_(y, y, value=0.5), y.clone().addcdiv_(x, y.abs() + 1, value=-2)), x, x + 2),
    "addcmul without value": case(lambda x, y: x.clone().addcmul_(y, y), x, x + 2),
    "addcmul of integers": case(lambda w: w.clone().addcmul_(w, w, value=2), whole),
    "lerp": case(lambda x, y: x.clone().lerp_(y, 0.3), x, x + 2),
    "out": case(out_argument, x),
    "copy broadcasts": case(resized, x),
    "copy of another dtype": case(lambda x, w: x.clone().copy_(w), x, whole),
    "masked fill": case(lambda x: x.clone().masked_fill_(x > 0, 9), x),
    "masked fill of an argument": case(lambda x: x.masked_fill_(x > 0, 9), x),
    "index put": case(lambda x: x.clone().index_put_((torch.tensor([0, 2]),), torch.tensor(5.0)), x),
    "index put accumulates": case(lambda x: x.clone().index_put_((torch.tensor([0, 0]),), torch.ones(2, 6), accumulate=True), x),
    "clamp and relu": case(lambda x: (x.clone().clamp_(-0.5, 0.5), x.clone().relu_()), x),
    "powers": case(lambda x: x.clone().pow_(2).sqrt_().neg_(), x),
    "integers": case(lambda w: w.clone().mul_(3).sub_(1).floor_divide_(2), whole),
    "bools": case(lambda w: (w > 5).logical_and_(w < 9).logical_not_(), whole),
    "slice scatter keeps gaps": case(lambda g: torch.slice_scatter(g, torch.zeros(2, 6), 0, 1, 3), gaps),
    "select scatter keeps gaps": case(lambda g: torch.select_scatter(g, torch.zeros(4), 1, 2), gaps),
    "diagonal scatter": case(lambda s: torch.diagonal_scatter(s, torch.zeros(5)), square),
    "fill": case(lambda x: (x.clone().fill_(2), x.new_full((2,), 3)), x),
    "exchange of two arguments": case(lambda a, b: (a.copy_(b * 1), b.zero_())[0] * 1, x, x + 1),
    "argument is a result": case(lambda x: x.add_(1), x),
    "unsqueezed argument": case(lambda x: x.unsqueeze_(0).mul_(2), x),
})


def fallback_gets_gaps(x):
    """What PyTorch draws for a tensor with gaps depends on its strides."""
    y = x.exp()[:, ::2]
    return torch.rand_like(y), y + 1


Fallback = topic("Fallback", {
    "random like a slice": case(fallback_gets_gaps, x, fallback="silent"),
    "random like a transpose": case(lambda x: torch.rand_like(x.exp().t()), x, fallback="silent"),
    "random like a transposed slice": case(lambda x: torch.randn_like(x.exp()[1:, 1:4].t()), x, fallback="silent"),
    "random like an expanded": case(lambda x: torch.rand_like(x.sum(0).expand(3, 6)), x, fallback="silent"),
    "random like a slice of an argument": case(lambda x: torch.rand_like(x[:, 1:4]) + x[:, 1:4], x, fallback="silent"),
    "dropout of a slice": case(lambda x: torch.dropout(x.exp()[:, 1:5], 0.5, True), x, fallback="silent"),
    "view of a fallback": case(lambda s: (y := torch.linalg.inv(s), y.t(), y[1] + 1), square, fallback="silent"),
    "fallback of a view": case(lambda s: (y := (s + 1), torch.linalg.inv(y.t()), y[1:]), square, fallback="silent"),
    "view of a draw, and the draw": case(lambda x: (y := torch.rand_like(x), y.view(-1), x.exp().t()), x, fallback="silent"),
})

if __name__ == "__main__":
    main()
