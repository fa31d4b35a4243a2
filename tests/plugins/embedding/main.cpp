// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a model of one input f32[4] and prints its first output: embedding MODEL [MANIFEST].
#include <array>
#include <cstdio>
#include <ferrite/ferrite.hpp>

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: embedding MODEL [MANIFEST]\n");
    return 2;
  }
  try {
    ferrite::SessionOptions options;
    if (count > 2) options.manifest = arguments[2];
    ferrite::Session session(options);
    ferrite::Model model(session, arguments[1]);
    const std::array<float, 4> values = {-1, 2, -3, 4};
    auto results = model.run({ferrite::Tensor::of<float>({4}, values)});
    for (float value : results.at(0).elements<float>()) std::printf("%.6g ", value);
    std::printf("\n");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
