# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import torch
import torchvision

model = torchvision.models.resnet50().eval()  # weights="DEFAULT" fetches trained ones
compiled = torch.compile(model, backend="ferrite")
x = torch.randn(1, 3, 224, 224)
with torch.no_grad():
    result, expected = compiled(x), model(x)
print("shape:", tuple(result.shape))
print("relative difference below 1e-5:", bool((result - expected).abs().max() < 1e-5 * expected.abs().max()))
