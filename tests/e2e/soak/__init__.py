"""An hour of everyday: a broker at a steady rate, on a store that fails now and then."""
