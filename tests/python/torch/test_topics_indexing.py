# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Indexing, gather and scatter, embeddings, sorting, padding."""

import unittest

import torch
import torch.nn.functional as F
from common import main
from topics import TopicTest, case, topic

torch.manual_seed(0)
x, cube = torch.randn(4, 6), torch.randn(2, 3, 4)
rows, columns = torch.tensor([2, 0, 3, 0]), torch.tensor([5, -1, 0, 2])
at = torch.tensor([[0, 2, 1], [3, 3, 0]])
other = torch.randn(2, 3)

Indexing = topic("Indexing", {
    "rows": case(lambda a, r: a[r], x, rows, gradients=True),
    "columns": case(lambda a, c: a[:, c], x, columns, gradients=True),
    "elements": case(lambda a, r, c: a[r, c], x, rows, columns, gradients=True),
    "indices broadcast": case(lambda a, r, c: a[r[:, None], c], x, rows, columns, gradients=True),
    "indices of two dims": case(lambda a, i: a[i], x, at, gradients=True),
    "indices apart": case(lambda c, i: c[i[:, 0] % 2, :, i[:, 1]], cube, at, gradients=True),
    "negative": case(lambda a: (a[-1], a[:, -2], a[torch.tensor([-1, -4])], a[-3:-1]), x, gradients=True),
    "steps": case(lambda a: (a[::2, 1::2] + 1, a[1:4:2] * 2), x, gradients=True),
    "ellipsis and none": case(lambda c: (c[..., 1] + 1, c[None, :, None] * 2, c[0, ..., 2:] - 1), cube, gradients=True),
    "index of 32 bits": case(lambda a, r: a[r.int()], x, rows),
    "bytes as index select": case(lambda a, r: (a.index_select(0, r), a.index_select(1, r.int())), x, rows, gradients=True),
    "take": case(lambda a, i: (a.take(i), a.take(i - 3)), x, at, gradients=True),
    "take along a dim": case(lambda a, i: torch.take_along_dim(a, i, 1), x, torch.tensor([[0], [5], [2], [2]]), gradients=True),
    "assignment of rows": case(lambda a, r: (b := a.clone(), b.__setitem__(r[:2], 7.0))[0], x, rows),
    "assignment of elements": case(lambda a, r, c: (b := a * 1, b.__setitem__((r[:3], c[:3]), a[0, :3]))[0], x, rows, columns),
    "assignment of a slice": case(lambda a: (b := a * 1, b.__setitem__((slice(1, 3), slice(None, None, 2)), 0.0))[0], x),
    "repeated places add up": case(lambda a, r: a.index_put((r,), torch.ones(4, 6), accumulate=True), x, rows, gradients=True),
    "index add": case(lambda a, r: a.index_add(0, r, torch.ones(4, 6), alpha=2), x, rows, gradients=True),
    "index copy and fill": case(lambda a: (a.index_copy(0, torch.tensor([3, 1]), a[:2] * 2), a.index_fill(1, torch.tensor([0, 4]), 5.0)), x),
    "narrow and select": case(lambda c: (c.narrow(2, 1, 2) * 2, c.select(1, -1) * 2), cube, gradients=True),
    "unfold": case(lambda a: a.unfold(1, 3, 2) * 2, x, gradients=True, fallback="silent"),
    "an index of a tensor without dims": case(lambda a, i: a[i] * 2, x, torch.tensor(2), fallback="silent"),
    "of integers": case(lambda i, r: (i[r], i[r % 2][:, r]), torch.arange(16).view(4, 4), rows),
    "of bools": case(lambda b, r: b[r], x > 0, rows),
    "chained": case(lambda a, r: a[r][:, r].t()[1:], x, rows, gradients=True),
})

ones = torch.ones(2, 3)
Scatter = topic("Scatter", {
    "gather": case(lambda a, i: (a.gather(0, i), a.gather(1, i)), x, at, gradients=True),
    "gather with repeats": case(lambda a: a.gather(1, torch.zeros(4, 9, dtype=torch.long)), x, gradients=True),
    "scatter": case(lambda a, s: a.scatter(0, torch.tensor([[0, 1, 2], [3, 2, 0]]), s), x, other, gradients=True),
    "scatter of a number": case(lambda a, i: a.scatter(1, i, 3.0), x, torch.tensor([[0, 2], [5, 1]])),
    "scatter add": case(lambda a, i, s: a.scatter_add(0, i, s), x, at, other, gradients=True),
    "scatter add of repeats": case(lambda a, s: a.scatter_add(1, torch.zeros(2, 3, dtype=torch.long), s), x, other, gradients=True),
    "scatter add of integers": case(lambda i: torch.zeros(4, 3, dtype=torch.long).scatter_add(0, i, i * 10), at),
    "scatter add of bf16": case(lambda a, i, s: a.scatter_add(0, i, s), x.bfloat16(), at, other.bfloat16()),
    "multiplied": case(lambda a, i, s: a.scatter_reduce(0, i, s, "prod"), x, at, other, fallback="silent"),
    "greatest": case(lambda a, i, s: (a.scatter_reduce(0, i, s, "amax"), a.scatter_reduce(0, i, s, "amin")), x, at, other, fallback="silent"),
    "mean": case(lambda a, i, s: a.scatter_reduce(0, i, s, "mean", include_self=False), x, at, other, fallback="silent"),
    "without itself": case(lambda a, i, s: a.scatter_reduce(0, i, s, "sum", include_self=False), x, at, other, fallback="silent"),
    "index reduce": case(lambda a, r: a.index_reduce(0, r, torch.ones(4, 6), "amax"), x, rows, fallback="silent"),
    "histogram": case(lambda r: (torch.bincount(r, minlength=5), torch.histc(r.float(), 4, 0, 4)), rows, fallback="silent"),
    "slice scatter": case(lambda a: a.slice_scatter(torch.ones(4, 2), 1, 1, 5, 2), x, gradients=True),
    "select and diagonal scatter": case(lambda a: (a.select_scatter(torch.ones(6), 0, 2), a.diagonal_scatter(torch.ones(4))), x, gradients=True),
    "put": case(lambda a, i: a.put(i, torch.ones(2, 3)), x, torch.tensor([[0, 7, 3], [4, 1, 9]])),
    "bucketize": case(lambda a: torch.bucketize(a, torch.tensor([-1.0, 0.0, 1.0])), x, fallback="silent"),
    "in place on an argument": case(lambda a, i, s: a.scatter_add_(0, i, s).sum(), x, at, other),
})

tokens = torch.tensor([[1, 4, 2], [0, 4, 4]])
table = torch.randn(6, 5)
Embedding = topic("Embedding", {
    "lookup": case(lambda t, w: F.embedding(t, w), tokens, table, gradients=True),
    "padding index": case(lambda t, w: F.embedding(t, w, padding_idx=4), tokens, table, gradients=True),
    "tokens of 32 bits": case(lambda t, w: F.embedding(t.int(), w), tokens, table, gradients=True),
    "of bf16": case(lambda t, w: F.embedding(t, w), tokens, table.bfloat16(), gradients=True),
    "one token": case(lambda t, w: F.embedding(t, w), torch.tensor(3), table, gradients=True),
    "no tokens": case(lambda t, w: F.embedding(t, w), torch.empty(0, dtype=torch.long), table),
    "sum of bags": case(lambda t, w: F.embedding_bag(t, w, mode="sum"), tokens, table, gradients=True, fallback="silent"),
    "mean of bags": case(lambda t, w: F.embedding_bag(t, w), tokens, table, gradients=True, fallback="silent"),
    "greatest of bags": case(lambda t, w: F.embedding_bag(t, w, mode="max"), tokens, table, fallback="silent"),
    "bags by offsets": case(lambda t, w: F.embedding_bag(t.view(-1), w, torch.tensor([0, 2, 5]), mode="sum"), tokens, table, fallback="silent"),
    "tied to a product": case(lambda t, w: F.embedding(t, w) @ w.t(), tokens, table, gradients=True),
    "scaled by frequency": case(lambda t, w: F.embedding(t, w, scale_grad_by_freq=True), tokens, table, gradients=True, fallback="silent"),
    "cross entropy": case(lambda t, w: F.cross_entropy(F.embedding(t, w).view(6, 5), t.view(-1)), tokens, table, gradients=True),
    "cross entropy ignores": case(lambda t, w: F.cross_entropy(w, torch.tensor([0, 1, -100, 3, 4, -100])), tokens, table, gradients=False),
    "negative log likelihood": case(lambda w, t: F.nll_loss(w.log_softmax(1), t, torch.arange(5) / 5), table, torch.tensor([0, 1, 2, 3, 4, 0]), gradients=True),
})

distinct = torch.randperm(24).view(4, 6).float()
repeated = torch.tensor([3, 1, 3, 2, 1, 3, 0])
Sorting = topic("Sorting", {
    "sort": case(lambda a: a.sort(1), distinct, gradients=True),
    "sort of columns downwards": case(lambda a: a.sort(0, descending=True), distinct, gradients=True),
    "stable sort": case(lambda r: (torch.sort(r, stable=True), torch.sort(r, stable=True, descending=True)), repeated),
    "argsort": case(lambda a: (a.argsort(), a.argsort(0, descending=True)), distinct),
    "top": case(lambda a: (a.topk(2), a.topk(3, 0), a.topk(2, largest=False)), distinct, gradients=True),
    "top of integers": case(lambda a: a.long().topk(2), distinct),
    "kth": case(lambda a: (a.kthvalue(2), a.kthvalue(1, 0, True)), distinct, fallback="silent"),
    "sort with nan": case(lambda a: a.sort(), torch.tensor([2.0, float("nan"), -1, float("inf"), float("-inf")])),
    "unique": case(lambda r: r.unique(), repeated, fallback="silent"),
    "unique with counts": case(lambda r: torch.unique_consecutive(r, return_counts=True), repeated, fallback="silent"),
    "search": case(lambda a: torch.searchsorted(torch.arange(0.0, 24, 4), a), distinct, fallback="silent"),
    "median of rows": case(lambda a: a.median(1), distinct[:, :5].contiguous(), fallback="silent"),
    "quantile": case(lambda a: a.quantile(0.3, 1), distinct, fallback="silent"),
    "top gathered": case(lambda a: a.gather(1, a.topk(2).indices) * 2, distinct, gradients=True),
    "sort of bools and bytes": case(lambda r: ((r > 1).sort(stable=True), r.to(torch.uint8).sort(stable=True)), repeated),
})

image = torch.randn(2, 3, 5, 6)
Padding = topic("Padding", {
    "constant": case(lambda i: (F.pad(i, (1, 2)), F.pad(i, (1, 0, 2, 1), value=3.0)), image, gradients=True),
    "negative": case(lambda i: (F.pad(i, (-1, 2)), F.pad(i, (-1, -2, 0, -1))), image, gradients=True),
    "reflected": case(lambda i: F.pad(i, (2, 1, 1, 2), "reflect"), image, gradients=True),
    "repeated": case(lambda i: F.pad(i, (2, 1, 1, 2), "replicate"), image, gradients=True),
    "circular": case(lambda i: F.pad(i, (2, 1, 1, 2), "circular"), image, gradients=True),
    "of lines": case(lambda i: (F.pad(i[0], (2, 3), "reflect"), F.pad(i[0], (2, 3), "replicate")), image, gradients=True),
    "of volumes": case(lambda i: (F.pad(i[None], (1, 1, 2, 0, 1, 1), "replicate"), F.pad(i, (0, 1, 1, 0, 1, 1))), image, gradients=True),
    "of integers and bools": case(lambda i: (F.pad(i.long(), (1, 1), value=7), F.pad(i > 0, (1, 1), value=True)), image),
    "in convolutions": case(lambda i: F.conv2d(F.pad(i, (1, 1, 1, 1), "reflect"), torch.ones(2, 3, 3, 3)), image, gradients=True),
    "nothing": case(lambda i: F.pad(i, (0, 0)), image),
    "unfold and fold": case(lambda i: F.fold(F.unfold(i, 3, padding=1) * 2, (5, 6), 3, padding=1), image, gradients=True, fallback="silent"),
})


CHECKS_ONE_HOT = unittest.skipIf(torch.__version__ < "2.15", "graphs of this PyTorch do not check the classes of one_hot")


class OutOfRange(TopicTest):
    @CHECKS_ONE_HOT
    def test_one_hot_reports_a_class_that_does_not_exist(self):
        """The check runs in PyTorch though nothing uses its result."""
        compiled = self.compiled(lambda i: F.one_hot(i, 3), "silent")
        self.compare(compiled(torch.tensor([0, 2])), F.one_hot(torch.tensor([0, 2]), 3))
        with self.assertRaises(RuntimeError):
            compiled(torch.tensor([0, 3]))

    def test_assertions_run_in_their_order(self):
        def f(a):
            torch._assert_async((a > 0).all(), "first")
            torch._assert_async((a.exp().sum() > 100), "second")
            return a * 2

        compiled = self.compiled(f, "silent")
        self.compare(compiled(torch.full((3,), 9.0)), torch.full((3,), 18.0))
        with self.assertRaisesRegex(RuntimeError, "first"):
            compiled(torch.tensor([-1.0, 2.0]))
        with self.assertRaisesRegex(RuntimeError, "second"):
            compiled(torch.tensor([1.0, 2.0]))

    @CHECKS_ONE_HOT
    def test_assertions_are_refused_by_name(self):
        with self.assertRaisesRegex(Exception, "FE-Y02.*_assert_async.*gives no tensor"):
            self.compiled(lambda i: F.one_hot(i, 3))(torch.tensor([1]))


if __name__ == "__main__":
    main()
