"""The second probe driver: upstream's own test runner (js/web/script/test-runner-cli.ts), in a checkout."""

from bisect_bot.probes.upstream.driver import Place, upstream_driver
from bisect_bot.probes.upstream.refusing import refuse_upstream

__all__ = ["Place", "refuse_upstream", "upstream_driver"]
