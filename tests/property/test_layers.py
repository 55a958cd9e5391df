"""A mapping that is changed by making another one is a dictionary, at every moment of its life."""

from hypothesis import given
from hypothesis import strategies as st

from lakelog.journal.layers import TOP_MIN, Layers

changes = st.lists(
    st.dictionaries(st.integers(0, 3 * TOP_MIN), st.integers(0, 9), max_size=TOP_MIN),
    max_size=12,
)


@given(st.dictionaries(st.integers(0, 50), st.integers(0, 9)), changes)
def test_every_mapping_stays_the_dictionary_that_it_was(
    start: dict[int, int], drawn: list[dict[int, int]]
) -> None:
    plain, layers = dict(start), Layers(start)
    lives = [(layers, dict(plain))]
    for values in drawn:
        plain = {**plain, **values}
        layers = layers.changed(values)
        lives.append((layers, dict(plain)))
    for one, dictionary in lives:
        assert one == dictionary
        assert len(one) == len(dictionary)
        assert dict(one.items()) == dict(one) == dictionary
        for key in range(-1, 3 * TOP_MIN + 1):
            assert one.get(key) == dictionary.get(key)
            assert one.get(key, -7) == dictionary.get(key, -7)
            assert (key in one) == (key in dictionary)


def test_a_change_costs_far_less_than_a_copy() -> None:
    """Entries that are copied for each of many small changes of a large mapping."""
    size, rounds = 100_000, 2_000
    layers = Layers(dict.fromkeys(range(size), 0))
    copied = 0
    for number in range(rounds):
        before = layers._base
        layers = layers.changed({number * 37 % size: number})
        copied += len(layers._top) + (len(layers._base) if layers._base is not before else 0)
    assert copied / rounds < size / 50
