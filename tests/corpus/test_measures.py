"""The text of {{convert}}."""

import pytest

from corpus import measures


@pytest.mark.parametrize(
    ("source", "named", "expected"),
    [
        ("1300|mi|km", {}, "1,300 miles"),
        ("1|mi|km", {}, "1 mile"),
        ("-1|C", {}, "-1 °C"),
        ("20.5|C|F", {"abbr": "on"}, "20.5 °C"),
        ("5|ft|10|in|cm", {}, "5 feet 10 inches"),
        ("5|to|10|km|mi", {}, "5 to 10 kilometres"),
        ("5|km|mi", {"sp": "us"}, "5 kilometers"),
        ("3|x|5|m", {}, "3 by 5 metres"),
        ("3|–|5|kg|lb", {}, "3–5 kilograms"),
        ("100|m|ft", {"adj": "on"}, "100-metre"),
        ("2|sqmi", {"adj": "on"}, "2-square-mile"),
        ("891.82|sqkm", {"abbr": "on"}, "891.82 km²"),
        ("50|km/h|mph", {}, "50 kilometres per hour"),
        ("36747|ft/s|m/s", {}, "36,747 feet per second"),
        ("36747|ft/s|m/s", {"abbr": "on"}, "36,747 ft/s"),
        ("2.3|Moilbbl/d", {}, "2.3 million barrels per day"),
        ("22|e6acre|km2", {}, "22 million acres"),
        ("12|PD/sqmi", {}, "12 inhabitants per square mile"),
        ("1.2|kg/m3", {}, "1.2 kilograms per cubic metre"),
        ("101|kPa|psi", {}, "101 kPa"),
        ("0.05|kg", {}, "0.05 kilograms"),
        ("12,500|ha", {}, "12,500 hectares"),
    ],
)
def test_measures_are_shown_as_given(source, named, expected):
    assert measures.convert(source.split("|"), named) == expected


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("", {}),
        ("5", {}),
        ("x|km", {}),
        ("5|furlongs per fortnight", {}),
        ("5|ft3", {"disp": "output number only"}),
    ],
)
def test_what_is_not_known_is_not_shown(source, named):
    assert measures.convert(source.split("|"), named) is None


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("999", "999"),
        ("1000", "1,000"),
        ("-12500.75", "−12,500.75"),
        ("0015", "0015"),
        ("12 500", "12 500"),
    ],
)
def test_thousands_are_grouped(number, expected):
    assert measures.grouped(number) == expected
