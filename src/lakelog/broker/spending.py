"""What a broker asks of the store less often, where requests have a price.

flushes        by the price of a put and the policy (``journal.pace``)
commits        a put for each shard of groups in four seconds by the policy cost; else in one
probes         a lane that only this broker writes to is looked at every half minute, at last,
               while fetches wait for it; without a budget every second
maintenance    a pass comes when there is a gigabyte to seal, or after ten minutes
"""

from dataclasses import replace

from lakelog.broker.maintenance import MaintenanceSettings
from lakelog.broker.settings import BrokerSettings
from lakelog.journal import FlushPolicy
from lakelog.store import Prices

__all__ = ["maintain_by_prices", "spend_by_prices"]

PROBE_MS = 30_000
COMMIT_MS = 4_000
PASS_S = 600.0


def spend_by_prices(settings: BrokerSettings, prices: Prices) -> BrokerSettings:
    """Return the settings of a broker on a store with these prices."""
    flush, groups = replace(settings.flush, put_nano_usd=prices["put"]), settings.groups
    is_cost = flush.policy_in_force is FlushPolicy.COST and flush.cell_ms > 0
    if is_cost and groups.commit_interval_ms:  # Else commits cost nothing.
        slow_ms = min(COMMIT_MS, groups.patience_ms * 4 // 5)
        groups = replace(groups, commit_interval_ms=max(groups.commit_interval_ms, slow_ms))
    probe_ms_max = max(PROBE_MS if flush.cell_ms else 0, settings.probe_ms)
    return replace(settings, flush=flush, groups=groups, probe_ms_max=probe_ms_max)


def maintain_by_prices(settings: MaintenanceSettings, prices: Prices) -> MaintenanceSettings:
    """Return how the namespace is maintained, if nobody says how often, with these prices."""
    if not any(prices.values()):
        return settings
    return replace(settings, every_s_max=max(PASS_S, settings.every_s))
