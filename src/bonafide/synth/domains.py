"""What the benchmark's tables are about: fourteen domains, their columns, and pools of values cut by split.

A pool is cut so that every sixth value belongs to dev alone and every sixth to test alone; dev and test
also draw from half of what train draws from, as real held-out tables do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = ("train", "dev", "test")

_TURNS: dict[Split, tuple[int, ...]] = {"train": (0, 1, 2, 3), "dev": (0, 2, 4), "test": (1, 3, 5)}


def values_of(pool: tuple[str, ...], split: Split) -> tuple[str, ...]:
    """The part of a pool that a split draws from."""
    return tuple(value for place, value in enumerate(pool) if place % 6 in _TURNS[split])


@dataclass(frozen=True, slots=True)
class Field:
    """A column: its name, its plural in a question, and its texts or its range of whole numbers.

    ``said`` is how a question may say the condition ``= {value}`` without naming the column.
    """

    name: str
    plural: str
    texts: tuple[str, ...] = ()
    said: str | None = None
    low: int = 0
    high: int = 0


@dataclass(frozen=True, slots=True)
class Domain:
    """What a row is called, one and many, and the columns that tables of this domain choose from."""

    one: str
    many: str
    fields: tuple[Field, ...]


_FIRST = (
    "Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Greta", "Hana", "Ivo", "June", "Karl", "Lea", "Marco", "Nia",
    "Otto", "Pia", "Rosa", "Sven", "Tara", "Victor",
)  # fmt: skip
_LAST = (
    "Lund", "Roy", "Marsh", "Ivers", "Stone", "Dahl", "Hale", "Ito", "Kral", "Park", "Wolfe", "Brand", "Novak",
    "Cole", "Rehn", "Voss", "Silva", "Berg", "Quinn",
)  # fmt: skip
_PEOPLE = tuple(f"{_FIRST[place % 20]} {_LAST[(place * 7 + place // 20) % 19]}" for place in range(72))
_CITIES = (
    "Oslo", "Lyon", "Porto", "Turin", "Ghent", "Riga", "Cork", "Graz", "Bern", "Tartu", "Vigo", "Bath", "Lille",
    "Malmo", "Brno", "Basel", "Leeds", "Nantes", "Split", "Bergen", "Trieste", "Utrecht", "Aarhus", "Krakow",
    "Bilbao", "Dresden", "Tampere", "Verona", "Geneva", "Gdansk", "Limerick", "Salzburg", "Coimbra", "Vilnius",
    "Bruges", "Zadar",
)  # fmt: skip
_CLUBS = tuple(
    f"{city} {suffix}" for place, city in enumerate(_CITIES) for suffix in [("United", "Rovers", "Athletic")[place % 3]]
)
_COMPANIES = tuple(
    f"{word} {kind}"
    for kind in ("Group", "Partners")
    for word in (
        "Northwind", "Bluebell", "Redstone", "Silverline", "Oakfield", "Harbour", "Sunrise", "Ironbridge", "Maple",
        "Granite", "Lakeside", "Falcon", "Juniper", "Meridian", "Pinewood",
    )
)  # fmt: skip
_GOODS = (
    "desk", "lamp", "chair", "shelf", "stool", "sofa", "rug", "mirror", "clock", "vase", "bench", "crate", "kettle",
    "blanket", "curtain", "pillow", "drawer", "basket",
)  # fmt: skip
_JOBS = (
    "clerk", "driver", "nurse", "baker", "tailor", "miner", "cook", "guard", "welder", "painter", "plumber", "porter",
    "analyst", "librarian", "mechanic", "gardener", "printer", "cashier",
)  # fmt: skip
_BOOKS = (
    "crime", "fantasy", "poetry", "travel", "history", "romance", "satire", "memoir", "horror", "science", "drama",
    "adventure",
)  # fmt: skip
_FILMS = (
    "comedy", "thriller", "western", "musical", "mystery", "documentary", "war", "animation", "noir", "family",
    "sports", "biography",
)  # fmt: skip
_MUSIC = ("jazz", "folk", "opera", "blues", "soul", "techno", "swing", "gospel", "reggae", "punk", "disco", "tango")
_CUISINES = (
    "Greek", "Thai", "Mexican", "French", "Indian", "Turkish", "Korean", "Spanish", "Polish", "Persian", "Cuban",
    "Ethiopian",
)  # fmt: skip
_FOODS = (
    "rice", "lamb", "lentils", "salmon", "tofu", "spinach", "beef", "mushrooms", "pasta", "potatoes", "beans",
    "pumpkin", "chicken", "barley", "leeks", "trout", "cabbage", "peppers",
)  # fmt: skip
_SPECIES = (
    "oak", "birch", "willow", "cedar", "elm", "beech", "larch", "chestnut", "poplar", "walnut", "hazel", "rowan",
)  # fmt: skip
_SUBJECTS = (
    "algebra", "chemistry", "geology", "botany", "logic", "statistics", "optics", "grammar", "rhetoric", "anatomy",
    "ecology", "astronomy",
)  # fmt: skip
_SHIPS = (
    "tanker", "ferry", "trawler", "tug", "barge", "schooner", "freighter", "cutter", "yacht", "icebreaker", "dredger",
    "cruiser",
)  # fmt: skip
_STYLES = (
    "cottage", "bungalow", "villa", "loft", "terrace", "studio", "farmhouse", "chalet", "duplex", "cabin", "mansion",
    "townhouse",
)  # fmt: skip
_EVENTS = (
    "sprint", "marathon", "hurdles", "relay", "steeplechase", "javelin", "discus", "decathlon", "triathlon", "slalom",
    "regatta", "biathlon",
)  # fmt: skip
_COUNTRIES = (
    "Norway", "Chile", "Kenya", "Japan", "Brazil", "Canada", "Latvia", "Morocco", "Peru", "Finland", "Ghana",
    "Portugal", "Austria", "Vietnam", "Jamaica", "Iceland", "Tunisia", "Ecuador",
)  # fmt: skip
_AIRLINES = tuple(f"{word} Air" for word in (
    "Nordic", "Coral", "Summit", "Delta", "Polar", "Amber", "Swift", "Condor", "Atlas", "Breeze", "Orion", "Heron",
))  # fmt: skip
_PARKS = tuple(f"{word} Park" for word in (
    "Queen", "Castle", "River", "Mill", "Abbey", "Station", "Meadow", "Harbor", "Royal", "Garden", "Forest", "Market",
))  # fmt: skip


def _text(name: str, plural: str, texts: tuple[str, ...], said: str | None = None) -> Field:
    return Field(name, plural, texts, said)


def _number(name: str, plural: str, low: int, high: int) -> Field:
    return Field(name, plural, low=low, high=high)


DOMAINS: dict[str, Domain] = {
    "orders": Domain("order", "orders", (
        _text("Customer", "customers", _PEOPLE, "placed by {value}"),
        _text("City", "cities", _CITIES, "shipped to {value}"), _text("Product", "products", _GOODS),
        _number("Quantity", "quantities", 1, 40), _number("Price", "prices", 5, 400),
        _number("Weight", "weights", 1, 90), _number("Discount", "discounts", 1, 60),
    )),
    "matches": Domain("match", "matches", (
        _text("Home team", "home teams", _CLUBS, "hosted by {value}"), _text("Away team", "away teams", _CLUBS),
        _text("Referee", "referees", _PEOPLE, "refereed by {value}"),
        _number("Home score", "home scores", 0, 12), _number("Away score", "away scores", 0, 12),
        _number("Attendance", "attendances", 50, 900), _number("Round", "rounds", 1, 38),
    )),
    "employees": Domain("employee", "employees", (
        _text("Manager", "managers", _PEOPLE, "reporting to {value}"),
        _text("Office", "offices", _CITIES, "based in {value}"), _text("Role", "roles", _JOBS),
        _number("Age", "ages", 18, 67), _number("Salary", "salaries", 20, 180),
        _number("Seniority", "seniorities", 1, 40), _number("Bonus", "bonuses", 1, 50),
    )),
    "trains": Domain("train", "trains", (
        _text("Origin", "origins", _CITIES, "leaving from {value}"),
        _text("Destination", "destinations", _CITIES, "bound for {value}"),
        _text("Operator", "operators", _COMPANIES, "run by {value}"),
        _number("Platform", "platforms", 1, 24), _number("Duration", "durations", 12, 240),
        _number("Fare", "fares", 4, 150), _number("Delay", "delays", 1, 60),
    )),
    "books": Domain("book", "books", (
        _text("Author", "authors", _PEOPLE, "written by {value}"),
        _text("Publisher", "publishers", _COMPANIES, "published by {value}"), _text("Genre", "genres", _BOOKS),
        _number("Length", "lengths", 40, 700), _number("Price", "prices", 5, 90),
        _number("Rating", "ratings", 1, 50), _number("Weight", "weights", 1, 30),
    )),
    "dishes": Domain("dish", "dishes", (
        _text("Chef", "chefs", _PEOPLE, "cooked by {value}"), _text("Cuisine", "cuisines", _CUISINES),
        _text("Ingredient", "ingredients", _FOODS, "made with {value}"),
        _number("Price", "prices", 4, 80), _number("Energy", "energies", 90, 900),
        _number("Cooking time", "cooking times", 5, 120), _number("Portion", "portions", 1, 12),
    )),
    "flights": Domain("flight", "flights", (
        _text("Airline", "airlines", _AIRLINES, "operated by {value}"),
        _text("Origin", "origins", _CITIES, "departing from {value}"),
        _text("Destination", "destinations", _CITIES, "landing in {value}"),
        _number("Gate", "gates", 1, 48), _number("Distance", "distances", 90, 900),
        _number("Fare", "fares", 20, 400), _number("Delay", "delays", 1, 90),
    )),
    "houses": Domain("house", "houses", (
        _text("Agent", "agents", _PEOPLE, "offered by {value}"),
        _text("City", "cities", _CITIES, "located in {value}"), _text("Style", "styles", _STYLES),
        _number("Area", "areas", 30, 300), _number("Rent", "rents", 30, 400),
        _number("Age", "ages", 1, 120), _number("Deposit", "deposits", 10, 90),
    )),
    "entries": Domain("entry", "entries", (
        _text("Athlete", "athletes", _PEOPLE, "made by {value}"), _text("Country", "countries", _COUNTRIES),
        _text("Event", "events", _EVENTS),
        _number("Rank", "ranks", 1, 30), _number("Score", "scores", 1, 99),
        _number("Lane", "lanes", 1, 12), _number("Time", "times", 9, 300),
    )),
    "films": Domain("film", "films", (
        _text("Director", "directors", _PEOPLE, "directed by {value}"),
        _text("Studio", "studios", _COMPANIES, "produced by {value}"), _text("Genre", "genres", _FILMS),
        _number("Length", "lengths", 60, 220), _number("Budget", "budgets", 1, 200),
        _number("Rating", "ratings", 1, 100), _number("Rank", "ranks", 1, 50),
    )),
    "trees": Domain("tree", "trees", (
        _text("Species", "species", _SPECIES), _text("Park", "parks", _PARKS, "growing in {value}"),
        _text("Gardener", "gardeners", _PEOPLE, "planted by {value}"),
        _number("Height", "heights", 2, 45), _number("Age", "ages", 1, 300),
        _number("Diameter", "diameters", 5, 150), _number("Distance", "distances", 10, 400),
    )),
    "courses": Domain("course", "courses", (
        _text("Teacher", "teachers", _PEOPLE, "taught by {value}"), _text("Subject", "subjects", _SUBJECTS),
        _text("City", "cities", _CITIES, "held in {value}"),
        _number("Enrolment", "enrolments", 4, 200), _number("Duration", "durations", 2, 52),
        _number("Fee", "fees", 10, 500), _number("Level", "levels", 1, 12),
    )),
    "ships": Domain("ship", "ships", (
        _text("Captain", "captains", _PEOPLE, "commanded by {value}"),
        _text("Port", "ports", _CITIES, "registered in {value}"), _text("Class", "classes", _SHIPS),
        _number("Length", "lengths", 15, 350), _number("Speed", "speeds", 5, 40),
        _number("Crew size", "crew sizes", 2, 90), _number("Age", "ages", 1, 60),
    )),
    "concerts": Domain("concert", "concerts", (
        _text("Singer", "singers", _PEOPLE, "sung by {value}"), _text("City", "cities", _CITIES, "held in {value}"),
        _text("Genre", "genres", _MUSIC),
        _number("Price", "prices", 8, 150), _number("Attendance", "attendances", 40, 900),
        _number("Duration", "durations", 30, 200), _number("Rating", "ratings", 1, 50),
    )),
}  # fmt: skip
