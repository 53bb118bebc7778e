"""Turns a revision into what a browser loads: an artifact in the cache, and which of its files a page loads.

Now for published builds, through the user's npm.
"""

from bisect_bot.builds.eras import bundle_for, crossings
from bisect_bot.builds.npm import Listing, Npm, listing
from bisect_bot.builds.published import fetch
from bisect_bot.builds.store import Store

__all__ = ["Listing", "Npm", "Store", "bundle_for", "crossings", "fetch", "listing"]
