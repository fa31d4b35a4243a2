// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ONNX importer as a plugin.
#include "ferrite/plugin.hpp"

#include "model.h"

FERRITE_PLUGIN("ferrite.onnx", "0.1.0", std::make_unique<ferrite::from_onnx::OnnxImporter>())
