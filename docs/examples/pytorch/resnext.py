# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import timm
import torch

model = timm.create_model("resnext101_32x8d", num_classes=2)  # pretrained=True fetches trained weights
compiled = torch.compile(model, backend="ferrite")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images, labels = torch.randn(2, 3, 64, 64), torch.tensor([0, 1])
for step in range(3):
    loss = torch.nn.functional.cross_entropy(compiled(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print("the loss is a number:", bool(torch.isfinite(loss)))
