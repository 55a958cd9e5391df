"""The dashboard and the alerts in deploy/, against a real Prometheus that scrapes a real broker."""
