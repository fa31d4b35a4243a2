# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import ferrite.torch
import torch

model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 10)).eval()
ferrite.torch.export(model, (torch.zeros(1, 64),), "/tmp/ferrite-docs-pytorch/model.fepkg")
