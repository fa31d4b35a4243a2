// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The keys of manifests, descriptors and lock files: the one place where a key is declared. manifest_read.cpp
// reads those of manifests.
#include <string_view>

#include "core/ir/stages.h"
#include "core/schedule/features.h"
#include "driver/config/schema.h"

namespace ferrite::core::config {
namespace {

constexpr std::string_view on_error_choices[] = {"fail", "skip"};
constexpr std::string_view isolation_choices[] = {"in-process", "process"};
constexpr std::string_view mode_choices[] = {"once", "fixpoint"};
constexpr std::string_view validation_choices[] = {"off", "on", "strict"};
constexpr std::string_view types[] = {"integer",  "number",  "boolean", "string",
                                      "integers", "numbers", "strings"};

constexpr std::string_view id_pattern = "^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$";
constexpr std::string_view version_pattern = "^[0-9]+\\.[0-9]+(\\.[0-9]+)?(-.*)?$";
constexpr std::string_view expect_pattern = "^ *(>=|<=|==) *[0-9]+ *$";
constexpr std::string_view hash_pattern = "^[0-9a-f]{64}$";

constexpr Key schema_key{.name = "schema",
                         .type = KeyType::integer,
                         .absent = "required",
                         .example = "0",
                         .doc = "the version of the form; this Ferrite reads 0",
                         .least = 0,
                         .most = newest_schema};

// Keys of a pass that manifests and descriptors share.
constexpr Key mode_key{
    .name = "mode",
    .type = KeyType::string,
    .absent = "`\"fixpoint\"` for rules, `\"once\"` for others",
    .example = "\"fixpoint\"",
    .doc =
        "`\"once\"`: the pass runs once, rules look at each node once. `\"fixpoint\"`: until nothing "
        "changes any more",
    .choices = mode_choices};
constexpr Key max_rewrites_key{
    .name = "max_rewrites",
    .type = KeyType::integer,
    .absent = "100000",
    .example = "1000",
    .doc =
        "how often one rule may be applied, or a pass in mode `\"fixpoint\"` may change something, in one "
        "compilation; more is an error",
    .least = 1,
    .most = 1'000'000'000};
constexpr Key timeout_key{
    .name = "timeout_ms",
    .type = KeyType::integer,
    .absent = "no limit",
    .example = "500",
    .doc =
        "how long the pass may take; checked whenever it reads or edits the graph, and when it returns. An "
        "isolated plugin also has [a limit for each callback](isolation.md#errors)",
    .least = 1,
    .most = 86'400'000};
constexpr Key expect_key{
    .name = "expect",
    .type = KeyType::string,
    .absent = "nothing is expected",
    .example = "\">=1\"",
    .doc =
        "how often it must be applied in a compilation in which its phase runs: `\">=1\"`, `\"<=8\"`, "
        "`\"==12\"`. Anything else is an error, so that a rewrite that no longer matches does not go unseen",
    .pattern = expect_pattern};

constexpr Key process_keys[] = {
    {.name = "timeout_ms",
     .type = KeyType::integer,
     .absent = "10000",
     .example = "2000",
     .doc =
         "how long each callback may take before the child is ended; for a pass with a `timeout_ms` of its "
         "own, the smaller of the two. The start has at least 10 seconds",
     .least = 1,
     .most = 86'400'000},
    {.name = "memory_mib",
     .type = KeyType::integer,
     .absent = "4096",
     .example = "1024",
     .doc = "the child's address space in MiB, mapped weights included",
     .least = 64,
     .most = 1 << 24},
    {.name = "starts",
     .type = KeyType::integer,
     .absent = "4",
     .example = "1",
     .doc = "after this many children have failed, no other is started",
     .least = 1,
     .most = 1000},
};
constexpr KeyTable process_table{"[plugin.\"id\".process]", process_keys};

constexpr Key plugin_keys[] = {
    {.name = "library",
     .type = KeyType::string,
     .absent = "from the descriptor",
     .example = "\"builds/acme_fuse.so\"",
     .doc = "another library for this plugin: below this file's folder, or absolute"},
    {.name = "on_error",
     .type = KeyType::string,
     .absent = "\"fail\"",
     .example = "\"skip\"",
     .doc =
         "whether a plugin that is not found, does not load, is not what the lock says, or whose pass fails, "
         "ends the compilation. A plugin that requires a skipped one is skipped too, or ends the compilation",
     .choices = on_error_choices},
    {.name = "isolation",
     .type = KeyType::string,
     .absent = "\"in-process\"",
     .example = "\"process\"",
     .doc = "where the plugin's callbacks run: in this process, or in [a child](isolation.md)",
     .choices = isolation_choices},
    {.name = "process",
     .type = KeyType::table,
     .absent = "none",
     .example = "",
     .doc = "limits of the child of an isolated plugin",
     .inner = &process_table},
    {.name = "config",
     .type = KeyType::settings,
     .absent = "empty",
     .example = "{ limit = 3, tile = { m = 4 } }",
     .doc = "settings for the plugin, as its descriptor declares them. Nested keys are joined by dots, "
            "`tile.m`. A library without a descriptor accepts any"},
};
constexpr KeyTable plugin_table{"[plugin.\"id\"]", plugin_keys};

constexpr Key pass_keys[] = {
    {.name = "enabled",
     .type = KeyType::boolean,
     .absent = "true",
     .example = "false",
     .doc = "false: the pass does not run"},
    {.name = "after",
     .type = KeyType::strings,
     .absent = "none",
     .example = "[\"passes.cse\"]",
     .doc = "passes of the same phase that run before it, besides those that the plugin names"},
    {.name = "before",
     .type = KeyType::strings,
     .absent = "none",
     .example = "[\"passes.dead_code\"]",
     .doc = "passes of the same phase that run after it"},
    mode_key,
    max_rewrites_key,
    timeout_key,
    expect_key,
};
constexpr KeyTable pass_table{"[pass.\"name\"]", pass_keys};

constexpr Key rule_keys[] = {expect_key};
constexpr KeyTable rule_table{"[rule.\"name\"]", rule_keys};

constexpr Key pipeline_keys[] = {
    {.name = "device",
     .type = KeyType::string,
     .absent = "none; `--device` must name one",
     .example = "\"cpu:0\"",
     .doc =
         "a runtime's id, with a number if wanted, several with commas between, or `\"interpreter\"`. The "
         "built-in plugins of GPUs are enabled by naming their devices here; that of the CPU is enabled by "
         "the default pipeline. The default pipeline, which a manifest extends unless it says otherwise, "
         "names `\"cpu\"`"},
    {.name = "fuse",
     .type = KeyType::boolean,
     .absent = "true",
     .example = "false",
     .doc = "false: statements are not grouped into kernels, as by `without = [\"fuse\"]`"},
    {.name = "without",
     .type = KeyType::strings,
     .absent = "none",
     .example = "[\"split\"]",
     .doc = "[features of the scheduler](seeing.md#which-feature-is-to-blame) that are switched off, in "
            "addition to those of the extended manifest",
     .choices = schedule::feature_names},
    {.name = "threads",
     .type = KeyType::integer,
     .absent = "0",
     .example = "2",
     .doc = "worker threads; 0: one for each processor that this process may use",
     .least = 0,
     .most = 4096},
    {.name = "memory_limit",
     .type = KeyType::integer,
     .absent = "0",
     .example = "8589934592",
     .doc = "bytes that the results, and the values between kernels, may take at any one time; a program "
            "that needs more is refused (`FE-S30`). 0: what this process can have, of memory and swap or of "
            "its control group",
     .least = 0,
     .most = int64_t{1} << 56},
    {.name = "cache",
     .type = KeyType::string,
     .absent = "\"on\"",
     .example = "\"off\"",
     .doc =
         "where compiled kernels are kept from one process to the next: `\"on\"` in the user's cache folder, "
         "`\"off\"` nowhere, else a folder"},
    {.name = "tf32",
     .type = KeyType::boolean,
     .absent = "false",
     .example = "true",
     .doc = "true: products and convolutions of f32 may round their operands to tf32. It is the value of the "
            "setting `tf32` of each plugin that declares one, where `[plugin]` gives none"},
    {.name = "tune",
     .type = KeyType::string,
     .absent = "\"cached\"",
     .example = "\"30\"",
     .doc = "how the candidate of a kernel is chosen: `\"off\"` by cost, `\"cached\"` by earlier "
            "measurements, else by cost; a number of seconds, in quotes like the two words: like "
            "`\"cached\"`, but kernels without measurements are measured, for at most that time"},
    {.name = "validate_rules",
     .type = KeyType::string,
     .absent = "\"on\"",
     .example = "\"strict\"",
     .doc = "rules of plugins that are not built in: `\"off\"` applies them without validation, `\"on\"` "
            "rejects those that validation shows to be wrong, `\"strict\"` also those that no sample reaches",
     .choices = validation_choices},
};
constexpr KeyTable pipeline_table{"[pipeline]", pipeline_keys};

// Keys of a manifest and of each of its profiles.
constexpr Key enable_key{
    .name = "enable",
    .type = KeyType::strings,
    .absent = "none",
    .example = "[\"acme.fuse\"]",
    .doc = "plugin ids, added to those of the extended manifest; an id given twice is an error"};
constexpr Key disable_key{.name = "disable",
                          .type = KeyType::strings,
                          .absent = "none",
                          .example = "[\"ferrite.onnx\"]",
                          .doc = "plugin ids that the extended manifest enables and this pipeline does not"};
constexpr Key search_key{.name = "search",
                         .type = KeyType::strings,
                         .absent = "none",
                         .example = "[\"plugins\"]",
                         .doc = "folders with descriptors, relative to this file"};
constexpr Key plugin_key{.name = "plugin",
                         .type = KeyType::named_tables,
                         .absent = "none",
                         .example = "",
                         .doc = "by plugin id: settings of one plugin that is enabled",
                         .inner = &plugin_table};
constexpr Key pass_key{.name = "pass",
                       .type = KeyType::named_tables,
                       .absent = "none",
                       .example = "",
                       .doc = "by pass name: settings of one pass. The rules of a file are one pass",
                       .inner = &pass_table};
constexpr Key rule_key{.name = "rule",
                       .type = KeyType::named_tables,
                       .absent = "none",
                       .example = "",
                       .doc = "by rule name: the expectation about one rule",
                       .inner = &rule_table};
constexpr Key pipeline_key{.name = "pipeline",
                           .type = KeyType::table,
                           .absent = "none",
                           .example = "",
                           .doc = "settings of the whole pipeline; options of the command line win over them",
                           .inner = &pipeline_table};

constexpr Key profile_keys[] = {enable_key, disable_key, search_key,  plugin_key,
                                pass_key,   rule_key,    pipeline_key};
constexpr KeyTable profile_table{"[profile.NAME]", profile_keys};

constexpr Key manifest_top_keys[] = {
    schema_key,
    {.name = "extends",
     .type = KeyType::string,
     .absent = "\"default\"",
     .example = "\"base.toml\"",
     .doc =
         "`\"default\"`; `\"none\"`: then this manifest has to enable every plugin, and to name a `device` "
         "unless `--device` does; or a manifest relative to this one; at most 16 deep"},
    enable_key,
    disable_key,
    search_key,
    plugin_key,
    pass_key,
    rule_key,
    pipeline_key,
    {.name = "profile",
     .type = KeyType::named_tables,
     .absent = "none",
     .example = "",
     .doc = "by name: settings that `--profile NAME` applies over the rest of this file, in the same tables",
     .inner = &profile_table},
};
constexpr KeyTable manifest_table{"", manifest_top_keys};

constexpr Key described_pass_keys[] = {
    {.name = "phase",
     .type = KeyType::string,
     .absent = "the library's",
     .example = "\"post_grad\"",
     .doc = "the hook at which it runs",
     .choices = phase_names},
    {.name = "after",
     .type = KeyType::strings,
     .absent = "the library's",
     .example = "[\"passes.cse\"]",
     .doc = "passes that run before it. For a pass of the library it must agree with the library; for a rule "
            "file it is given only here"},
    {.name = "before",
     .type = KeyType::strings,
     .absent = "the library's",
     .example = "[\"passes.dead_code\"]",
     .doc = "passes that run after it"},
    mode_key,
    max_rewrites_key,
    timeout_key,
};
constexpr KeyTable described_pass_table{"[passes.\"name\"]", described_pass_keys};

constexpr Key declaring_keys[] = {
    {.name = "type",
     .type = KeyType::string,
     .absent = "required",
     .example = "\"integer\"",
     .doc = "the type of the values; an integer is also a number",
     .choices = types},
    {.name = "min",
     .type = KeyType::value,
     .absent = "no limit",
     .example = "1",
     .doc = "the least value of a number, or of each in a list"},
    {.name = "max",
     .type = KeyType::value,
     .absent = "no limit",
     .example = "64",
     .doc = "the greatest value of a number, or of each in a list"},
    {.name = "choices",
     .type = KeyType::values,
     .absent = "any",
     .example = "[8, 16, 32]",
     .doc = "the allowed values, of the setting or of each element of a list"},
    {.name = "default",
     .type = KeyType::value,
     .absent = "no value",
     .example = "8",
     .doc = "the value where the manifest gives none"},
    {.name = "doc",
     .type = KeyType::string,
     .absent = "none",
     .example = "\"rows of a tile\"",
     .doc = "a description, for `ferrite plugin list --why`"},
};
constexpr KeyTable declaration_table{"a setting in [config]", declaring_keys};

constexpr Key descriptor_top_keys[] = {
    schema_key,
    {.name = "id",
     .type = KeyType::string,
     .absent = "required",
     .example = "\"acme.fuse\"",
     .doc = "names joined by dots, of letters, digits, `_` and `-`; at most 128 bytes",
     .pattern = id_pattern},
    {.name = "version",
     .type = KeyType::string,
     .absent = "required",
     .example = "\"1.2.0\"",
     .doc = "`major.minor` or `major.minor.patch`; a suffix `-rc1` is ignored in comparisons. The library "
            "must have the same version",
     .pattern = version_pattern},
    {.name = "library",
     .type = KeyType::string,
     .absent = "none",
     .example = "\"acme_fuse.so\"",
     .doc = "the shared library; without one the plugin is its rules and aliases"},
    {.name = "abi",
     .type = KeyType::string,
     .absent = "required with `library`",
     .example = "\">= 0.1, < 0.3\"",
     .doc =
         "the ABI that the library was built for: one version, or conditions with `>=`, `>`, `<=`, `<`, `==` "
         "joined by commas. The program's own must be in it",
     .goes_with = "library"},
    {.name = "rules",
     .type = KeyType::strings,
     .absent = "none",
     .example = "[\"fusions.fe\"]",
     .doc = "files in the [rule language](text.md#rules)"},
    {.name = "platform",
     .type = KeyType::string_or_strings,
     .absent = "any",
     .example = "\"linux-x86_64\"",
     .doc = "the platforms of the library: `linux-x86_64`, `linux-aarch64`"},
    {.name = "requires",
     .type = KeyType::strings,
     .absent = "none",
     .example = "[\"ferrite.std >= 0.1.0\", \"blas\"]",
     .doc = "plugins that must be enabled, by id or by an ability that they provide, optionally with a "
            "minimum version"},
    {.name = "provides",
     .type = KeyType::strings,
     .absent = "none",
     .example = "[\"blas\"]",
     .doc = "names of abilities, in the form of ids, that other plugins may list in `requires` instead of "
            "the id. A plugin with a runtime lists `device.` followed by the runtime's id: a built-in plugin "
            "is then enabled where that device is named"},
    {.name = "targets",
     .type = KeyType::strings,
     .absent = "none",
     .example = "[\"npu:v*\"]",
     .doc = "the targets for which the plugin compiles: a kind of device, `:`, and a name of targets, which "
            "may end in `*`. A built-in plugin is enabled where `--target` names one of these"},
    {.name = "aliases",
     .type = KeyType::strings,
     .absent = "none",
     .example = "[\"onnx:com.acme::FusedRope\"]",
     .doc = "ops of models that an op of a plugin implements: the format, `:`, and the op as such models "
            "name it. Where the plugin defines several ops, or an op of another plugin is meant, `=` and its "
            "name follow: `\"onnx:com.acme::FusedRope = acme.rope\"`"},
    {.name = "passes",
     .type = KeyType::strings_or_tables,
     .absent = "none",
     .example = "[\"acme.drop_dropout\"]",
     .doc = "passes of the plugin, as a list of names or as tables with more. A manifest may name them in "
            "`after` and `before` also where the plugin is not enabled; each must be there once it is loaded",
     .inner = &described_pass_table},
    {.name = "config",
     .type = KeyType::declarations,
     .absent = "none",
     .example = "{ limit = \"integer\" }",
     .doc = "the settings of the plugin, each with its type or with a table of details. A table without a "
            "key `type` holds further settings. Other settings are errors in a manifest",
     .inner = &declaration_table},
};
constexpr KeyTable descriptor_table{"", descriptor_top_keys};

constexpr Key locked_rule_keys[] = {
    {.name = "path",
     .type = KeyType::string,
     .absent = "required",
     .example = "\"plugins/fusions.fe\"",
     .doc = "the file, written as `library` is"},
    {.name = "sha256",
     .type = KeyType::string,
     .absent = "required",
     .example = "",
     .doc = "the SHA-256 of its bytes, in 64 hexadecimal digits",
     .pattern = hash_pattern},
};
constexpr KeyTable locked_rule_table{"[[plugin.rules]]", locked_rule_keys};

constexpr Key locked_plugin_keys[] = {
    {.name = "id",
     .type = KeyType::string,
     .absent = "required",
     .example = "\"acme.fuse\"",
     .doc = "the plugin",
     .pattern = id_pattern},
    {.name = "version",
     .type = KeyType::string,
     .absent = "absent if the plugin has no descriptor",
     .example = "\"1.2.0\"",
     .doc = "its version, as its descriptor says it",
     .pattern = version_pattern},
    {.name = "library",
     .type = KeyType::string,
     .absent = "absent if the plugin has only rules",
     .example = "\"plugins/acme_fuse.so\"",
     .doc = "relative to the manifest if it is below the manifest's folder, `built-in:NAME` for those of "
            "Ferrite, else absolute"},
    {.name = "library_sha256",
     .type = KeyType::string,
     .absent = "required with `library`",
     .example = "",
     .doc = "the SHA-256 of the library that is loaded",
     .pattern = hash_pattern},
    {.name = "descriptor",
     .type = KeyType::string,
     .absent = "absent if the plugin has none",
     .example = "\"plugins/acme.fuse.plugin.toml\"",
     .doc = "written as `library` is"},
    {.name = "descriptor_sha256",
     .type = KeyType::string,
     .absent = "required with `descriptor`",
     .example = "",
     .doc = "the SHA-256 of the descriptor",
     .pattern = hash_pattern},
    {.name = "rules",
     .type = KeyType::table_list,
     .absent = "none",
     .example = "",
     .doc = "its rule files, in the order of the descriptor",
     .inner = &locked_rule_table},
};
constexpr KeyTable locked_plugin_table{"[[plugin]]", locked_plugin_keys};

constexpr Key lock_top_keys[] = {
    schema_key,
    {.name = "plugin",
     .type = KeyType::table_list,
     .absent = "none",
     .example = "",
     .doc = "one table for each plugin that the manifest or one of its profiles enables",
     .inner = &locked_plugin_table},
};
constexpr KeyTable lock_table{"", lock_top_keys};

constexpr FileKeys files[] = {
    {"manifest", "A Ferrite manifest: which plugins run and with what settings.", &manifest_table},
    {"descriptor", "A Ferrite plugin's descriptor, <id>.plugin.toml.", &descriptor_table},
    {"lock", "A Ferrite lock file: the hashes of a manifest's plugins.", &lock_table},
};

}  // namespace

std::span<const FileKeys> file_keys() { return files; }
const KeyTable& manifest_keys() { return manifest_table; }
const KeyTable& descriptor_keys() { return descriptor_table; }
const KeyTable& lock_keys() { return lock_table; }
const KeyTable& declaration_keys() { return declaration_table; }
std::span<const std::string_view> setting_types() { return types; }

}  // namespace ferrite::core::config
