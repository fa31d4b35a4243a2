# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tables of what a target was measured to compute, where placement looks for them."""

import re
from pathlib import Path

SUFFIX = ".capabilities.toml"


def place_of(log, provider):
    """The file that is looked for, from the log (FERRITE_LOG=plugins) of a program that opened the device."""
    found = re.search(rf"the table of what '{provider}' takes is (\S+?{re.escape(SUFFIX)}), which is not there", log)
    if not found:
        raise ValueError(f"the log names no table of {provider!r}:\n{log}")
    return Path(found[1])


def write(place, text):
    """`text` with the target that the file's name says."""
    place.write_text(text.replace("TARGET", place.name.removesuffix(SUFFIX)))
