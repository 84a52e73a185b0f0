"""What the synthetic passages are about: seven scenes, who acts in them, what is counted there, what happens.

A scene is a list of words. *Who* acts has a name (cut by split, as in ``domains.py``); a *measure* is what each of
them has a number of (*Lowry scored 14 points*); a *deed* is done or not (*Lowry kicked a field goal*); *events* have
dates. Openings and remarks hold no numbers, so that every number of a passage is one that the generator put there.
Neither a place nor a month ends a sentence, so that none runs into the name that begins the next.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measure:
    """What is counted: its plural noun, the verb in base and past form, and the range of its numbers."""

    many: str
    base: str
    past: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Deed:
    """What is done once by some: its noun, one and many, and the verb in base and past form."""

    one: str
    many: str
    base: str
    past: str


@dataclass(frozen=True, slots=True)
class Share:
    """What a percentage is of, and what they did: base and past form."""

    many: str
    base: str
    past: str


@dataclass(frozen=True, slots=True)
class Scene:
    """The words of a scene.

    ``the`` stands before a name. ``asides`` hold a number of their own that no measure shares. ``brief`` scenes have
    short passages, for models that learn within minutes.
    """

    one: str
    many: str
    names: tuple[str, ...]
    the: str
    measures: tuple[Measure, ...]
    deeds: tuple[Deed, ...]
    events: tuple[str, ...]
    shares: tuple[Share, ...]
    openings: tuple[str, ...]
    remarks: tuple[str, ...]
    asides: tuple[str, ...]
    brief: bool = False


PLACES = (
    "Aldermoor", "Brackwell", "Carrow", "Dunmere", "Eastholm", "Fallowby", "Gorsley", "Harwick", "Ivelby", "Kelstone",
    "Larkhill", "Marden", "Northey", "Oxmere", "Pellworth", "Quarley", "Ravensby", "Selwick", "Thornham", "Ulverby",
    "Wexcombe", "Yarrow", "Amberley", "Birchover", "Coldwater", "Drayford", "Elmsworth", "Finchley", "Grimsdale",
    "Holloway",
)  # fmt: skip
"""Towns where things happen."""
_SURNAMES = (
    "Arden", "Boyle", "Carver", "Doran", "Elmer", "Fisk", "Gower", "Hobbs", "Innes", "Jarvis", "Kemp", "Lowry",
    "Mercer", "Nolan", "Orwin", "Pratt", "Rigby", "Sutter", "Tobin", "Usher", "Vance", "Weller", "Yates", "Zorn",
    "Bexley", "Corbin", "Dunlop", "Easton", "Farrow", "Grady", "Hollis", "Kirby", "Ludlow", "Merritt", "Norris",
    "Penrose",
)  # fmt: skip
_VILLAGES = (
    "Ashby", "Beckton", "Cranfield", "Dalby", "Egham", "Foxton", "Grafton", "Hadley", "Ingleby", "Kirkham", "Linton",
    "Melbury", "Newsham", "Osmaston", "Pickworth", "Risby", "Saltby", "Tilney", "Upwell", "Wansford", "Yelden",
    "Barrowden", "Clipston", "Denford", "Empingham", "Fotheringay", "Glaston", "Harringworth", "Ketton", "Lyddington",
)  # fmt: skip
_OFFICES = (
    "Library", "Fire Brigade", "Harbour Office", "School", "Hospital", "Museum", "Market Hall", "Waterworks",
    "Town Theatre", "Post Office", "City Park", "Tram Depot", "Art Gallery", "Youth Club", "Orchestra", "Observatory",
    "Swimming Pool", "Botanic Garden",
)  # fmt: skip
_FARMS = tuple(f"{word} Farm" for word in (
    "Alder", "Bramble", "Clover", "Dairy", "Elder", "Fern", "Glebe", "Heather", "Ivy", "Juniper", "Kiln", "Lodge",
    "Manor", "Nettle", "Orchard", "Priory", "Quarry", "Rectory", "Spring", "Thistle", "Valley", "Willow", "Yew",
    "Barley",
))  # fmt: skip
_SHIPS = (
    "Petrel", "Heron", "Swallow", "Marigold", "Lantern", "Comet", "Dolphin", "Falcon", "Gannet", "Harrier", "Iris",
    "Juno", "Kestrel", "Linnet", "Mermaid", "Nimrod", "Osprey", "Puffin", "Raven", "Sparrow", "Tern", "Unicorn",
    "Vesper", "Wren",
)  # fmt: skip
_KINDS = ("Express", "Coach", "Ferry")

SCENES: dict[str, Scene] = {
    "games": Scene(
        "player", "players", _SURNAMES, "",
        (
            Measure("points", "score", "scored", 4, 60), Measure("tackles", "make", "made", 3, 40),
            Measure("yards", "run", "ran", 5, 99), Measure("passes", "catch", "caught", 3, 40),
        ),
        (
            Deed("field goal", "field goals", "kick", "kicked"), Deed("fumble", "fumbles", "recover", "recovered"),
            Deed("medal", "medals", "win", "won"),
        ),
        ("opening game", "cup final", "winter trial", "training camp", "return match", "award night"),
        (Share("fans", "wear red", "wore red"), Share("seats", "stay empty", "stayed empty")),
        ("The {place} team played at home.", "In {place} it was a cold night.", "In {place} both teams met again."),
        ("The crowd sang until late.", "Rain fell all evening.", "The coach praised all.", "The floodlights failed."),
        (
            "some {number} flags hung over the stand", "the bus stopped {number} times on the way",
            "a band of {number} drummers played", "the kiosk sold {number} pies",
        ),
        brief=True,
    ),
    "battles": Scene(
        "colonel", "colonels", tuple(f"Colonel {name}" for name in _SURNAMES), "",
        (
            Measure("men", "lose", "lost", 12, 400), Measure("guns", "capture", "captured", 3, 60),
            Measure("prisoners", "take", "took", 8, 250), Measure("horses", "bring", "brought", 10, 180),
        ),
        (
            Deed("bridge", "bridges", "burn", "burned"), Deed("banner", "banners", "surrender", "surrendered"),
            Deed("tunnel", "tunnels", "dig", "dug"), Deed("fort", "forts", "storm", "stormed"),
        ),
        (
            "siege of {place}", "fall of {place}", "truce of {place}", "raid on {place}", "council at {place}",
            "treaty of {place}",
        ),
        (Share("recruits", "come from the coast", "came from the coast"), Share("wagons", "break down", "broke down")),
        (
            "The war in the hills around {place} was slow and costly.",
            "Both armies had been watching {place} from across the river.",
            "Few in {place} believed that the campaign would go on for so long.",
        ),
        (
            "Letters home spoke of mud and little bread.", "Fog hid the ridge for most of the morning.",
            "Neither side could claim that the valley was safe.",
        ),
        (
            "an old map shows {number} watchtowers along the road", "the column rested at {number} farms",
            "some {number} carts waited behind the church", "a chaplain wrote {number} letters that week",
        ),
    ),
    "censuses": Scene(
        "village", "villages", _VILLAGES, "",
        (
            Measure("houses", "have", "had", 20, 700), Measure("families", "count", "counted", 15, 600),
            Measure("sheep", "keep", "kept", 30, 900), Measure("children", "register", "registered", 12, 400),
        ),
        (
            Deed("forge", "forges", "own", "owned"), Deed("chapel", "chapels", "build", "built"),
            Deed("well", "wells", "deepen", "deepened"), Deed("toll gate", "toll gates", "close", "closed"),
        ),
        ("great fire", "land survey", "harvest fair", "flood", "count of the parish", "opening of the road to {place}"),
        (Share("adults", "work on the land", "worked on the land"), Share("homes", "have a garden", "had a garden")),
        (
            "The clerks of {place} went from door to door to write down who lived in the district.",
            "The district of {place} lies between the moor and the sea.",
            "For a long time nobody around {place} had thought of counting heads.",
        ),
        (
            "Many young people had left for the towns.", "The registers are kept in the old tithe barn.",
            "Not everyone was pleased to be counted.",
        ),
        (
            "the clerks filled {number} notebooks", "the survey crossed {number} streams",
            "some {number} ponies carried the papers", "the parish paid for {number} candles",
        ),
    ),
    "budgets": Scene(
        "office", "offices", _OFFICES, "the ",
        (
            Measure("crowns", "spend", "spent", 20, 900), Measure("workers", "employ", "employed", 4, 90),
            Measure("complaints", "answer", "answered", 5, 120), Measure("visitors", "welcome", "welcomed", 30, 800),
        ),
        (
            Deed("loan", "loans", "repay", "repaid"), Deed("van", "vans", "buy", "bought"),
            Deed("grant", "grants", "receive", "received"), Deed("roof", "roofs", "repair", "repaired"),
        ),
        ("budget vote", "public hearing", "audit", "tax reform", "strike in {place}", "sale of the town hall"),
        (Share("citizens", "ask for lower taxes", "asked for lower taxes"), Share("bills", "go unpaid", "went unpaid")),
        (
            "The council of {place} published its accounts.", "Money was short in {place} again.",
            "The mayor of {place} had promised to explain where the money went.",
        ),
        (
            "The newspapers printed every line of it.", "The opposition called the figures a fairy tale.",
            "A storm had damaged several buildings.",
        ),
        (
            "the debate went on for {number} hours", "some {number} speakers asked for the floor",
            "the report has {number} pages", "the mayor shook {number} hands",
        ),
    ),
    "timetables": Scene(
        "service", "services", tuple(f"{place} {_KINDS[turn % 3]}" for turn, place in enumerate(_VILLAGES)), "the ",
        (
            Measure("minutes", "take", "took", 15, 180), Measure("passengers", "carry", "carried", 20, 400),
            Measure("stops", "make", "made", 3, 40), Measure("parcels", "deliver", "delivered", 5, 150),
        ),
        (
            Deed("delay", "delays", "report", "reported"), Deed("detour", "detours", "make", "made"),
            Deed("breakdown", "breakdowns", "suffer", "suffered"), Deed("new driver", "new drivers", "get", "got"),
        ),
        (
            "summer timetable", "winter timetable", "line to {place}", "repair of the viaduct", "ticket reform",
            "visit of the inspector",
        ),
        (Share("riders", "buy a pass", "bought a pass"), Share("trips", "end late", "ended late")),
        (
            "From {place} people can travel along the coast and into the hills.",
            "The station of {place} was busy again.", "The company at {place} printed its figures on a large poster.",
        ),
        (
            "Some riders still prefer the old steamer.", "The waiting room smells of coffee and wet coats.",
            "The clock above the gate is always a little fast.",
        ),
        (
            "the station has {number} benches", "a guard found {number} umbrellas",
            "the poster lists {number} rules", "some {number} lamps light the platform",
        ),
    ),
    "harvests": Scene(
        "farm", "farms", _FARMS, "",
        (
            Measure("barrels", "fill", "filled", 8, 160), Measure("sacks", "sell", "sold", 10, 300),
            Measure("hives", "tend", "tended", 3, 70), Measure("pickers", "hire", "hired", 4, 80),
        ),
        (
            Deed("barn", "barns", "build", "built"), Deed("tractor", "tractors", "lease", "leased"),
            Deed("prize", "prizes", "win", "won"), Deed("wagon", "wagons", "borrow", "borrowed"),
        ),
        (
            "apple market", "late frost", "cider feast", "hailstorm", "meeting of the growers in {place}",
            "wool auction",
        ),
        (Share("trees", "bear fruit", "bore fruit"), Share("growers", "use horses", "used horses")),
        (
            "The orchards around {place} had a good year.", "Growers near {place} compared their harvest.",
            "In the valley of {place} everything depends on the weather.",
        ),
        (
            "Wasps were a nuisance until the nights grew cold.", "The old press squeaked from dawn to dusk.",
            "Most of the fruit went to the town by boat.",
        ),
        (
            "the fair had {number} stalls", "some {number} geese walked across the square",
            "the choir sang {number} songs", "a baker brought {number} cakes",
        ),
    ),
    "voyages": Scene(
        "ship", "ships", _SHIPS, "the ",
        (
            Measure("crates", "load", "loaded", 10, 300), Measure("miles", "sail", "sailed", 40, 900),
            Measure("hands", "need", "needed", 5, 90), Measure("whales", "sight", "sighted", 3, 45),
        ),
        (
            Deed("mast", "masts", "lose", "lost"), Deed("storm", "storms", "meet", "met"),
            Deed("pilot", "pilots", "hire", "hired"), Deed("flag", "flags", "lower", "lowered"),
        ),
        ("blessing of the fleet", "regatta", "spring tide", "landing at {place}", "mutiny", "sale of the cargo"),
        (Share("sailors", "fall ill", "fell ill"), Share("letters", "arrive wet", "arrived wet")),
        (
            "A small fleet left {place} with the evening tide.", "The harbour of {place} was full of sails and gulls.",
            "Merchants in {place} waited for news from the sea.",
        ),
        (
            "Nobody trusted the new charts.", "The cooks complained about the salted cabbage.",
            "Gulls followed the fleet for most of the way.",
        ),
        (
            "the log has {number} pages", "the harbour master lit {number} torches",
            "some {number} widows prayed on the pier", "a merchant offered {number} coins for the news",
        ),
    ),
}  # fmt: skip
