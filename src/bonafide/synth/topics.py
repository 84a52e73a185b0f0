"""What synthetic documents are about: twelve topics, what is told of the things in them, and in which words.

A topic has things with names, and relations between a thing and a value: a *role* ("the captain of the Quiet Lantern")
that is also told by a *verb* ("the Quiet Lantern is steered by"). Values come in kinds (people, towns, years, …), and
each topic has at least three relations to a kind, so that a value can be told of a thing in several ways. Names and
values are cut by split as in ``domains.py``; phrasings have one each that only dev or only test uses.

No value is a part of a name, of another value or of a phrasing: where a value stands in a document, it was put there.
"""

from __future__ import annotations

from dataclasses import dataclass

from bonafide.synth.phrases import Phrasings


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value: its noun, the word that asks for it, and its values."""

    noun: str
    asks: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """A role, the verb that says the same, and the kind of value that has it."""

    role: str
    verb: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Topic:
    """The names of its things, and what is told of them."""

    names: tuple[str, ...]
    relations: tuple[Relation, ...]


def _crossed(first: str, second: str, count: int) -> tuple[str, ...]:
    """Pairs of a word of each list, all different, that use every word about equally often."""
    one, other = first.split(), second.split()
    pairs = [
        f"{one[place % len(one)]} {other[(place + place // len(one)) % len(other)]}"
        for place in range(len(one) * len(other))
    ]
    return tuple(pairs[:count])


def _joined(first: str, second: str, count: int) -> tuple[str, ...]:
    return tuple(pair.replace(" ", "") for pair in _crossed(first, second, count))


PERSON = Kind("person", "who", _crossed(
    "Adela Bruno Carla Denis Elin Fabio Gerda Hugo Irma Jonas Katja Leon Mirja Nils Olga Pavel Ruta Simon Thea Urban",
    "Abbot Birk Crane Drost Ekman Fonda Grieg Holt Ilves Jurek Kaas Lorca Mohn Nagy Orban Pihl Ruiz Sandor Tamm",
    180,
))  # fmt: skip
TOWN = Kind("town", "what", _joined(
    "Ald Brin Carn Dun Esk Fal Gren Hest Ing Jor Kel Lam Mor Nor Ost Pel Rav Sel Tarn Ul",
    "mouth bury wick by dale stead haven thorpe", 120,
))  # fmt: skip
YEAR = Kind("year", "what", tuple(str(1801 + 3 * place % 198) for place in range(66)))
MATERIAL = Kind("material", "what", (
    "oak", "brass", "slate", "copper", "granite", "leather", "marble", "pewter", "wicker", "bronze", "canvas", "cork",
    "larch", "enamel", "clay", "flint", "iron", "linen", "zinc", "walnut", "plaster", "limestone", "bamboo", "felt",
))  # fmt: skip
FOOD = Kind("food", "what", (
    "barley soup", "plum cake", "rye bread", "smoked trout", "lentil stew", "goat cheese", "honey tart", "onion pie",
    "potato dumplings", "bean salad", "apple cider", "mint tea", "pea pancakes", "nut pudding", "leek broth",
    "cherry jam", "oat biscuits", "pickled beets", "ginger rolls", "carrot fritters", "pumpkin curry", "fig chutney",
    "herb omelette", "almond milk",
))  # fmt: skip
ANIMAL = Kind("animal", "what", (
    "otters", "lynxes", "badgers", "storks", "tortoises", "falcons", "hedgehogs", "walruses", "beavers", "ibexes",
    "magpies", "newts", "ospreys", "puffins", "seals", "stoats", "swifts", "toads", "vipers", "weasels", "wolves",
    "yaks", "moles", "geese",
))  # fmt: skip


def _topic(first: str, second: str, told: dict[Kind, str]) -> Topic:
    """A topic from the words of its names and, for each kind, ``role: verb | role: verb``."""
    names = tuple(f"the {name}" for name in _crossed(first, second, 56))
    relations = []
    for kind, line in told.items():
        for each in line.split(" | "):
            role, verb = each.split(": ")
            relations.append(Relation(role, verb, kind))
    return Topic(names, tuple(relations))


TOPICS: dict[str, Topic] = {
    "ships": _topic(
        "Quiet Brave Distant Patient Northern Lucky Proud Gentle",
        "Lantern Comet Anchor Thistle Sail Voyager Dawn",
        {
            PERSON: "captain: is steered by | owner: was bought by | "
            "designer: was drawn by | cook: has its meals made by",
            TOWN: "home port: is registered in | birthplace: was built in | "
            "winter berth: spends the cold months in | first destination: sailed first to",
            YEAR: "launch year: was launched in | repair year: was repaired in | sale year: was sold in",
        },
    ),
    "plays": _topic(
        "Hollow Second Silver Broken Endless Sleeping Hidden Last",
        "Mirror Promise Staircase Letter Summer Kingdom Orchard",
        {
            PERSON: "writer: was written by | director: was staged by | "
            "star: was led on stage by | sponsor: was paid for by",
            TOWN: "setting: takes place in | premiere town: was first shown in | closing town: was last shown in",
            YEAR: "opening year: opened in | revival year: came back in | ban year: was forbidden in",
        },
    ),
    "gardens": _topic(
        "Upper Lower Walled Royal Sunken Wild Formal Abbey",
        "Terrace Grove Meadow Arboretum Parterre Hedgerow Lawn",
        {
            PERSON: "planner: was laid out by | head gardener: is looked after by | "
            "donor: was given away by | warden: is guarded by",
            ANIMAL: "emblem: shows on its gate | pest: is troubled by | rarest sight: is seldom visited by",
            MATERIAL: "path cover: has its paths covered with | "
            "wall material: is walled with | bench material: has its benches made of",
        },
    ),
    "bakeries": _topic(
        "Corner Golden Midnight Harbour Old Little Market Riverside",
        "Oven Crust Loaf Basket Pantry Hearth Spoon",
        {
            PERSON: "founder: was started by | manager: is run by | "
            "bookkeeper: has its sums done by | landlord: is rented from",
            FOOD: "best seller: sells more than anything | first product: began by selling | "
            "prize winner: won a medal for its | staff meal: feeds its staff on",
            YEAR: "opening year: was opened in | fire year: burned down in | move year: changed house in",
        },
    ),
    "bridges": _topic(
        "Narrow Great Crooked Twin Hanging Stone Upper Chain",
        "Crossing Span Arch Causeway Viaduct Footway Passage",
        {
            PERSON: "engineer: was planned by | toll keeper: has its toll taken by | "
            "inspector: is checked by | namesake: is dedicated to",
            MATERIAL: "railing material: has railings of | "
            "deck material: is paved with | pier material: stands on piers of",
            YEAR: "completion year: was finished in | flood year: was flooded in | widening year: was widened in",
        },
    ),
    "expeditions": _topic(
        "First Polar Forgotten Desert Island Summit River Joint",
        "Crossing Survey Mission Journey Traverse Ascent Search",
        {
            PERSON: "leader: was commanded by | doctor: was kept healthy by | "
            "map maker: was mapped by | guide: was shown the way by",
            ANIMAL: "mascot: took along tame | chief danger: was attacked by | discovery: described for science",
            TOWN: "starting point: set out from | supply depot: got its supplies from | end point: came to an end in",
        },
    ),
    "schools": _topic(
        "Elm Hilltop Castle Valley Lakeside Union Priory Spring",
        "Academy College Institute Lyceum School Seminary Gymnasium",
        {
            PERSON: "head teacher: is headed by | caretaker: is swept by | "
            "music teacher: learns songs from | best-known pupil: once taught",
            FOOD: "Monday lunch: serves on Mondays | "
            "birthday dish: gives to birthday children | forbidden snack: does not allow",
            YEAR: "foundation year: was founded in | merger year: was merged in | roof year: got a new roof in",
        },
    ),
    "festivals": _topic(
        "Harvest Lantern Midsummer Winter Drum Kite Ballad Fiddle",
        "Fair Parade Week Gathering Carnival Jubilee Feast",
        {
            PERSON: "host: is presented by | headliner: ends with a concert of | "
            "treasurer: has its money kept by | poster artist: had its poster painted by",
            TOWN: "venue: is held in | rival: competes with the feast of | partner town: is twinned with",
            FOOD: "official dish: is known for its | "
            "free sample: hands out free | contest dish: holds a contest in cooking",
        },
    ),
    "railways": _topic(
        "Coastal Eastern Mountain Valley Central Border Night Branch",
        "Line Express Shuttle Link Railcar Route Mail",
        {
            PERSON: "chief driver: is driven by | "
            "surveyor: was surveyed by | ticket inspector: has its tickets stamped by",
            TOWN: "terminus: runs as far as | workshop town: is serviced in | "
            "longest stop: waits longest in | busiest station: picks up most people in",
            MATERIAL: "seat material: has seats of | "
            "sleeper material: lies on sleepers of | lamp material: is lit by lamps of",
        },
    ),
    "museums": _topic(
        "Regional People's Glass Clock Maritime Toy Folk Silent",
        "Museum Gallery Collection Archive Cabinet Hall Rotunda",
        {
            PERSON: "curator: is kept by | burglar: was robbed by | "
            "architect: was planned on paper by | patron: is financed by",
            ANIMAL: "oldest skeleton: shows the bones of ancient | "
            "logo: prints on its tickets | stuffed exhibit: has in its hall stuffed",
            YEAR: "inauguration year: was inaugurated in | "
            "theft year: was burgled in | renovation year: was renovated in",
        },
    ),
    "mills": _topic(
        "Upper Old Windy Double Forest Bishop's Tall Weir",
        "Mill Wheel Grinder Sawmill Watermill Windmill Press",
        {
            PERSON: "miller: is worked by | heir: will be left to | creditor: owes money to",
            MATERIAL: "wheel material: turns on a wheel of | "
            "door material: is closed by a door of | roof material: is roofed with",
            TOWN: "market: sells its flour in | parish: pays its dues to | grain source: gets its grain from",
        },
    ),
    "choirs": _topic(
        "Evening Cathedral Dockside Railway Sunday Postal Joyful Humming",
        "Choir Chorus Singers Voices Ensemble Quartet Octet",
        {
            PERSON: "conductor: is conducted by | first soprano: has its high notes sung by | "
            "critic: was mocked in print by | pianist: is accompanied by",
            TOWN: "rehearsal place: rehearses in | last tour stop: sang last in | summer camp: goes on holiday to",
            FOOD: "concert snack: nibbles before concerts | "
            "throat remedy: cures sore throats with | party dish: celebrates with",
        },
    ),
}

TELL = Phrasings(
    (
        "The {role} of {thing} is {value}.",
        "{value} is the {role} of {thing}.",
        "{thing} {verb} {value}.",
        "It is well known that {thing} {verb} {value}.",
        "As for its {role}, {thing} has {value}.",
    ),
    dev="Ask anyone: {thing} {verb} {value}.",
    test="Older sources agree that the {role} of {thing} is {value}.",
)
ASK = Phrasings(
    (
        "{asks} is the {role} of {thing}?",
        "which {noun} is the {role} of {thing}?",
        "{thing} {verb} which {noun}?",
        "name the {role} of {thing}.",
    ),
    dev="do you know which {noun} is the {role} of {thing}?",
    test="please tell me the {role} of {thing}.",
)
REGISTER = Phrasings(
    ("These pages name {list}.", "Index: {list}.", "Keywords of this account: {list}.", "Look here for {list}."),
    dev="Entries: {list}.",
    test="The following turn up below: {list}.",
)
REMARKS = (
    "Not everything about it has been written down.",
    "Opinions on this differ.",
    "Much has changed since then.",
    "The records are kept in a drawer upstairs.",
    "Few visitors ask about that.",
    "Some of it is hearsay.",
    "More will be told another time.",
    "There are drawings of it, but no photographs.",
)
