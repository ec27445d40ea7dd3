"""Java's regular expressions in Python: the same topics match, or the construct is named."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncelog.spark.options.java_pattern import PatternError, compiled


def matches(pattern, *names):
    return [name for name in names if compiled(pattern).search(name)]


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("orders", "my-orders-eu", "ordres"),
        ("^orders", "orders-eu", "my-orders"),
        (r"\Qa.b\E", "a.b-1", "axb-1"),
        (r"^\p{Lower}+$", "orders", "Orders"),
        (r"\p{IsAlphabetic}+\P{L}", "orders-", "orders"),
        ("^[a-z&&[^aeiou]]+$", "xyz", "xaz"),
        ("^[a-f[x-z]]+$", "axe", "hat"),
        (r"(?<env>dev|prod)-\k<env>", "dev-dev", "dev-prod"),
        ("a++b", "aab", "b"),
        (r"\x61\u0062\0143", "abc", "abx"),
        (r"a(?i)b(?-i)c", "aBc", "aBC"),
        (r"\h*a\z", "a", "b"),
        ("(?i:EU)-x", "eu-x", "eu-X"),
        ("^[]a]+$", "aa", "ab"),
    ],
)
def test_what_python_writes_otherwise_is_translated(pattern, matching, other):
    assert matches(pattern, matching, other) == [matching]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"\Gabc", r"\\G is not supported"),
        (r"\b{g}", r"\\b\{...\} is not supported"),
        (r"\N{DIGIT ONE}", r"\\N is not supported"),
        ("(?x)a b", "the flag x"),
        (r"\p{IsGreek}", r"\\p\{IsGreek\} is not supported"),
        (r"(?i)\p{Lower}", "under the flag i"),
        (r"\1(a)", "a group that does not end before it"),
        ("(?<=a{1,2})b", "a look-behind of varying length"),
        ("[a&&]", "&& with nothing on its right"),
        ("(", "that is not closed"),
        ("a)", "that closes nothing"),
        ("[a", "that is not closed"),
        ("a**", "with nothing to repeat"),
        ("x{", "that begins no repetition"),
        (r"\y", "has no meaning"),
        ("[z-a]", "ends before it begins"),
        ("a\\", "a backslash at the end"),
    ],
)
def test_what_cannot_be_translated_is_named(pattern, words):
    with pytest.raises(PatternError, match=words):
        compiled(pattern)


CHARACTERS = st.sampled_from([*"abABkK019._-&^]}~é", r"\.", r"\x61", r"\u0041", r"\0101", r"\t", r"\cn", r"\Qa.[\E"])
CLASSES = [
    *(rf"\{letter}" for letter in "dDwWsShHvV"),
    *(
        rf"\p{{{name}}}"
        for name in ("Lower", "Alnum", "Punct", "L", "Lu", "IsLatin", "IsDigit", "javaLetter", "gc=Nd", "sc=Latin")
    ),
    *(r"\P{Lu}", r"\pN", r"\PL"),
]
MEMBERS = st.one_of(CHARACTERS, st.sampled_from([*CLASSES[:4], "a-c", "A-z", "+-.", "a-", "-", "&&", r"\]", r"\Q]\E"]))


def bracketed(inner):
    return st.builds("[{}{}]".format, st.sampled_from(["", "^"]), st.lists(inner, min_size=1, max_size=4).map("".join))


SETS = st.recursive(bracketed(MEMBERS), lambda inner: bracketed(st.one_of(MEMBERS, inner)), max_leaves=3)
PLACES = ["^", "$", r"\b", r"\B", r"\A", r"\z"]
OTHERS = [".", r"\R", r"\X", r"\1", r"\k<n>", "(?i)", "(?-i)"]
ATOMS = st.one_of(CHARACTERS, SETS, st.sampled_from([*PLACES, *OTHERS, *CLASSES]))
QUANTIFIERS = st.sampled_from(
    ["", "", "", "*", "+", "?", "{2}", "{1,}", "{0,2}", "*?", "??", "*+", "++", "{1,2}+", "{,2}"]
)
GROUPS = st.sampled_from(["(", "(?:", "(?=", "(?!", "(?>", "(?<!", "(?<=", "(?<n>", "(?i:"])


def sequences(atoms):
    pieces = st.lists(st.builds("{}{}".format, atoms, QUANTIFIERS), max_size=4).map("".join)
    return st.lists(pieces, min_size=1, max_size=2).map("|".join)


PATTERNS = st.recursive(
    sequences(ATOMS),
    lambda inner: sequences(st.one_of(ATOMS, st.builds("{}{})".format, GROUPS, inner))),
    max_leaves=4,
)
NAMES = st.lists(st.text("abABkK01.-_", min_size=1, max_size=5), min_size=1, max_size=8)


@pytest.mark.spark
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(pattern=PATTERNS, names=NAMES)
def test_java_and_the_translation_are_found_in_the_same_names(spark, pattern, names):
    try:
        translated = compiled(pattern)
    except PatternError:
        return
    found = java_finds(spark, pattern, names)
    assert found is None or found == [translated.search(name) is not None for name in names]


def java_finds(spark, pattern, names):
    """Which names Java finds the pattern in; None where it finds that a look-behind has no obvious maximum length."""
    regex = spark._jvm.java.util.regex.Pattern
    try:
        pattern = regex.compile(pattern)
    except Exception as error:
        if "Look-behind" not in str(error):
            raise
        return None
    return [pattern.matcher(name).find() for name in names]
