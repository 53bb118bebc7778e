"""Turns a revision into what a browser loads: an artifact in the cache, and which of its files a page loads.

Published builds come through the user's npm; commits are built by upstream's own commands (`yard`).
"""

from bisect_bot.builds.eras import bundle_for, crossings
from bisect_bot.builds.npm import Listing, Npm, listing
from bisect_bot.builds.published import fetch
from bisect_bot.builds.store import Store
from bisect_bot.builds.wasm_build import Toolchain
from bisect_bot.builds.yard import Yard

__all__ = ["Listing", "Npm", "Store", "Toolchain", "Yard", "bundle_for", "crossings", "fetch", "listing"]
