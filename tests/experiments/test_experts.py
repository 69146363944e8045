"""Expert priors name what is there; spoiled ones keep their number and form."""

import numpy as np
import pytest

from priormtl.data import centre_samples, to_tasks
from priormtl.experiments.experts import expert_prior, spoil_prior
from priormtl.experiments.protocol import PROTOCOLS, load_rows, make_split
from priormtl.priors import FeaturePrior, difference_matrix
from small_tasks import MAKERS, SHAPE

WITH_EXPERT = ("school", "yale", "letter", "orl")


def moments_of(data):
    return centre_samples(to_tasks(*make_split(PROTOCOLS[data.name], data, 0).train))


def relations(prior, moments):
    """D as an array."""
    return difference_matrix(prior, moments).toarray()


def related(names, D):
    """Pairs of names with the sign of their relation: −1 where they act alike."""
    pairs = []
    for row in D:
        first, second = np.flatnonzero(row)
        pairs.append((names[first], names[second], np.sign(row[first] * row[second])))
    return pairs


def components(pairs):
    """Features that hang together, as sets of names."""
    groups = []
    for a, b, _ in pairs:
        touched = [group for group in groups if group & {a, b}]
        merged = {a, b}.union(*touched)
        groups = [group for group in groups if group not in touched] + [merged]
    return groups


@pytest.fixture
def school():
    data = MAKERS["school"]()
    return data, related(data.feature_names, relations_of(data))


def relations_of(data):
    return relations(expert_prior(data), moments_of(data))


def test_school_relates_columns_of_one_kind(school):
    data, pairs = school
    alike = components([pair for pair in pairs if pair[2] < 0])
    kinds = [
        {name for name in data.feature_names if name.startswith("year_")},
        {name for name in data.feature_names if name.startswith("ethnic_")},
        {"school_mixed", "school_boys", "school_girls"},
        {"school_maintained", "school_church_of_england", "school_roman_catholic"},
    ]
    assert sorted(map(sorted, alike)) == sorted(map(sorted, kinds))
    assert [len(kind) for kind in kinds] == [3, 11, 3, 3]


def test_school_sets_poverty_against_ability(school):
    _, pairs = school
    opposite = [set(pair[:2]) for pair in pairs if pair[2] > 0]
    assert opposite == [{"school_pct_free_meals", "school_pct_vr_band1"}]


def test_every_pair_of_a_kind_is_related_once(school):
    _, pairs = school
    assert len({frozenset(pair[:2]) for pair in pairs}) == len(pairs)
    assert len(pairs) == 3 + 11 * 10 // 2 + 3 + 3 + 1


@pytest.mark.parametrize("name", ["yale", "letter", "orl"])
def test_pixels_are_like_their_neighbours(name):
    data = MAKERS[name]()
    D = relations_of(data)
    grid = relations(FeaturePrior.grid(*SHAPE), moments_of(data))
    np.testing.assert_array_equal(D, grid)
    assert len(D) == 7  # of 2 x 3 pixels


def test_sarcos_has_no_expert():
    assert expert_prior(MAKERS["sarcos"]()) is None


@pytest.mark.usefixtures("real_sets")
def test_the_columns_of_the_real_school_have_the_same_names():
    data = load_rows("school")
    assert data.feature_names == MAKERS["school"]().feature_names
    assert len(relations_of(data)) == 65


def spoiled(name, share, seed=0):
    data = MAKERS[name]()
    prior, moments = expert_prior(data), moments_of(data)
    rng = np.random.default_rng(seed)
    worse = spoil_prior(prior, moments, share, rng)
    return relations(prior, moments), relations(worse, moments)


def changed_rows(before, after):
    return int(np.sum(np.any(before != after, axis=1)))


@pytest.mark.parametrize("name", WITH_EXPERT)
@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_spoiling_keeps_the_number_and_the_form_of_relations(name, share):
    before, after = spoiled(name, share)
    assert after.shape == before.shape
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old[old != 0], new[new != 0])


@pytest.mark.parametrize("name", WITH_EXPERT)
def test_no_share_changes_nothing(name):
    before, after = spoiled(name, 0.0)
    np.testing.assert_array_equal(before, after)


def test_the_whole_share_changes_nearly_all():
    before, after = spoiled("school", 1.0)
    assert changed_rows(before, after) >= 0.9 * len(before)


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_at_most_the_share_is_changed(share):
    before, after = spoiled("school", share)
    most = round(share * len(before))
    assert 0.9 * most <= changed_rows(before, after) <= most


def test_spoiling_depends_on_the_seed_alone():
    np.testing.assert_array_equal(spoiled("school", 0.5)[1], spoiled("school", 0.5)[1])
    other = spoiled("school", 0.5, seed=1)[1]
    assert not np.array_equal(spoiled("school", 0.5)[1], other)
