# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import ferrite.torch
import torch
import transformers

config = transformers.BertConfig(num_hidden_layers=4)  # BertModel.from_pretrained("bert-base-uncased") fetches trained weights
model = transformers.BertModel(config).eval()
compiled = torch.compile(model, backend="ferrite", options={"fallback": "error"})
tokens = torch.randint(0, config.vocab_size, (1, 64))
with torch.no_grad():
    result, expected = compiled(tokens).last_hidden_state, model(tokens).last_hidden_state
    print("relative difference below 1e-5:", bool((result - expected).abs().max() < 1e-5 * expected.abs().max()))
    print(ferrite.torch.explain(model, tokens))
