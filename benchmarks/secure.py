"""What security costs a broker: each part over a plain broker that has none of it, in one run.

tls      requests, bytes in and bytes out with TLS, bar 0.6         (``secure_tls``)
acls     requests, bytes and fetches with a thousand ACLs, bar 0.95 (``secure_acls``)
quotas   requests and bytes with quotas that do not bind, bar 0.95  (``secure_quotas``)

The value is the least of all ratios over their bars.
"""

from benchmarks import secure_acls, secure_quotas, secure_tls
from benchmarks.measure import arguments, closing_line

PARTS = {"tls": secure_tls, "acls": secure_acls, "quotas": secure_quotas}


def main() -> None:
    quick = arguments(__doc__).quick
    found = {}
    for name, part in PARTS.items():
        found[name] = part.figures(quick=quick)
        print(name, found[name], flush=True)
    over = [row["ratio"] / part.BAR for name, part in PARTS.items() for row in found[name].values()]
    bars = {name: part.BAR for name, part in PARTS.items()}
    closing_line(name="secure", value=min(over), bar=1.0, bars=bars, **found)


if __name__ == "__main__":
    main()
