"""Patterns of topics: Java and Python find the same topics, or the pattern is refused with what to write instead."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncelog.spark.options.topic_pattern import PatternError, compiled


def matches(pattern, *names):
    return [name for name in names if compiled(pattern).search(name)]


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("orders", "my-orders-eu", "ordres"),
        ("^orders", "orders-eu", "my-orders"),
        ("^(?!__).*$", "orders", "__orders"),
        ("(?i)^eu[.-]", "EU-x", "eux"),
        ("(?i:EU)-x", "eu-x", "eu-X"),
        ("(?<env>dev|prod)-(a|b)", "dev-b", "test-b"),
        ("(?-i:a)b", "ab", "Ab"),
        (r"\x61\u0062[^\W_]{2,3}?\Z", "abcd", "abc_"),
        (r"^[\w.&\[\]]+$", "a.b_c", "a-b"),
        ("(?<=a|b)c", "bc", "dc"),
    ],
)
def test_pattern_that_java_and_python_read_alike_finds_topics(pattern, matching, other):
    assert matches(pattern, matching, other) == [matching]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"^\p{Lower}+", r"'\\\\p{Lower}' at 1 is not read alike by Java and Python: write the characters out"),
        (r"\PL", "write the characters out"),
        (r"\Qa.b\E", "write a backslash before each sign"),
        (r"a\z", "write \\$ for the end"),
        (r"\Gabc", "\\^ for the beginning"),
        (r"\h*a", "a topic's name has only"),
        (r"a\R", "a topic's name has only"),
        (r"\N{DIGIT ONE}", "a topic's name has only"),
        (r"\0101", "write the character itself"),
        (r"(dev|prod)-\1", "write out what the group stands for"),
        (r"(?<n>a)\k<n>", "write out what the group stands for"),
        (r"\cA", "write the character itself"),
        (r"\x{61}", "write the character itself"),
        (r"\y", r"write one of \\A"),
        ("a\\", r"write one of \\A"),
        ("[a-z&&[^aeiou]]", "write one list of characters"),
        ("[a-f[x-z]]", "write one list of characters"),
        ("[]a]", "write one list of characters"),
        ("[^]&&]", "write one list of characters"),
        ("[a--b]", "write one list of characters"),
        (r"[\b]", "write one list of characters"),
        ("[a", "write one list of characters"),
        ("a(?i)b", "write the flags i, m and s at the beginning"),
        ("(?x)a b", "write the flags i, m and s at the beginning"),
        ("(?u:a)", "write the flags i, m and s at the beginning"),
        ("a++b", "write the quantifier without"),
        ("(?>a|ab)c", r"write .* \(\?:\.\.\.\) for"),
        ("(?P<n>a)", "write one of"),
        ("(?#comment)", "write one of"),
        ("x{", "write one of"),
        ("x{,2}", "write one of"),
        (r"\b{g}", "write one of"),
        ("(?<=a{1,2})b", "Python's re refuses it: look-behind requires fixed-width pattern"),
        ("(", "Python's re refuses it: missing \\)"),
        ("a)", "Python's re refuses it: unbalanced parenthesis"),
        ("a**", "Python's re refuses it: multiple repeat"),
        ("[z-a]", "Python's re refuses it: bad character range"),
        ("a{99999999999}", "Python's re refuses it: the repetition number is too large"),
        ("(" * 5000 + ")" * 5000, "nested too deeply"),
    ],
)
def test_what_java_and_python_do_not_read_alike_is_refused_with_what_to_write(pattern, words):
    with pytest.raises(PatternError, match=words):
        compiled(pattern)


CHARACTERS = st.sampled_from([*"abABkK019._-&^]}~é", r"\.", r"\[", r"\x61", r"\u0041", r"\0101", r"\t", r"\cn"])
CLASSES = [r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\v", r"\h", r"\p{Lower}"]
MEMBERS = st.one_of(CHARACTERS, st.sampled_from([*CLASSES[:4], "a-c", "A-z", "+-.", "a-", "-", "&", "&&", r"\]"]))


def bracketed(inner):
    return st.builds("[{}{}]".format, st.sampled_from(["", "^"]), st.lists(inner, min_size=1, max_size=4).map("".join))


SETS = st.recursive(bracketed(MEMBERS), lambda inner: bracketed(st.one_of(MEMBERS, inner)), max_leaves=3)
PLACES = ["^", "$", r"\b", r"\B", r"\A", r"\Z", r"\z"]
OTHERS = [".", r"\1", "(?i)"]
ATOMS = st.one_of(CHARACTERS, SETS, st.sampled_from([*PLACES, *OTHERS, *CLASSES]))
QUANTIFIERS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,}", "{0,2}", "*?", "??", "{1,2}?", "++", "{,2}"])
GROUPS = st.sampled_from(["(", "(?:", "(?=", "(?!", "(?>", "(?<!", "(?<=", "(?<n>", "(?i:", "(?-i:"])


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
@given(pattern=st.builds("{}{}".format, st.sampled_from(["", "(?i)", "(?ims)"]), PATTERNS), names=NAMES)
def test_java_and_python_find_a_pattern_in_the_same_names_or_it_is_refused(spark, pattern, names):
    try:
        accepted = compiled(pattern)
    except PatternError:
        return
    found = java_finds(spark, pattern, names)
    assert found is None or found == [accepted.search(name) is not None for name in names]


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
