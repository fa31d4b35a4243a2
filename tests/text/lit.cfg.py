# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Text tests. The parameters say which programs the substitutions are: ferrite, filecheck, split_file, python; and output, a
# folder for what the tests write.
import os

import lit.formats

parameter = lit_config.params
config.name = "ferrite"
config.suffixes = [".fe"]
config.test_format = lit.formats.ShTest(execute_external=True)
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = parameter["output"]
config.substitutions += [
    ("%FileCheck", parameter["filecheck"]),
    ("%split_file", parameter["split_file"]),
    # A bad input: its message, and an exit status that says so.
    ("%refused", f"{config.test_source_root}/refused.sh {parameter['ferrite']}"),
    # Compiled and interpreted results agree.
    ("%same_result", f"{parameter['python']} {config.test_source_root}/same_result.py {parameter['ferrite']}"),
    # The memory plan needs no more than op-by-op execution.
    ("%within_eager", f"{parameter['python']} {config.test_source_root}/within_eager.py {parameter['ferrite']}"),
    # Each stage gives from the text of the one before what it gives from the model.
    ("%every_stage", f"{parameter['python']} {config.test_source_root}/every_stage.py {parameter['ferrite']}"),
    # The command line is wrong: its message, and exit status 2.
    ("%misused", f"{config.test_source_root}/refused.sh --status 2 {parameter['ferrite']}"),
    # The machine cannot hold it: its message, and exit status 5.
    ("%unheld", f"{config.test_source_root}/refused.sh --status 5 {parameter['ferrite']}"),
    # A result is wrong: the message, and exit status 1.
    ("%wrong", f"{config.test_source_root}/refused.sh --status 1 {parameter['ferrite']}"),
    # The folder of the tests' plugins, which the build puts beside the program's own.
    ("%test_plugins", f"{os.path.dirname(parameter['ferrite'])}/../lib/ferrite/test_plugins"),
    ("%ferrite", parameter["ferrite"]),
]
# What a user's shell sets must not change a listing.
for name in [name for name in config.environment if name.startswith("FERRITE_")]:
    del config.environment[name]
config.environment["FERRITE_CACHE"] = "off"  # what is tested is compiled
config.environment["XDG_CACHE_HOME"] = f"{config.test_exec_root}/nothing-measured"
