// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From the enabled plugins of manifests to files: descriptors, libraries and rules, in the order of loading.
#pragma once

#include "driver/config/lock.h"
#include "driver/config/manifest_read.h"

namespace ferrite::core::config {

/// Finds the plugins that the manifests and the request enable. `lock` may be null. Errors are those of
/// read_pipeline().
Result<Pipeline> find_plugins(ManifestContent content, const PipelineRequest& request, const Lock* lock);

}  // namespace ferrite::core::config
