"""Words become synonyms, in the right form (paper 4, Table 2): WordNet's, where one sense is meant nearly always.

WordNet's synonyms are loose: of its senses only the first is used, and only where people who tagged running text meant
it mostly, by both words. What still changes the meaning in stories is refused by the tables below; pairs of everyday
words that mean the same in stories, though tagged seldom or with other senses, are named there.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from nlgauge.errors import OptionError
from nlgauge.perturb.base import Edit, Kind, Outcome, Perturbation, Unchanged, edited
from nlgauge.perturb.clauses import children
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.forms import in_form_of, replaced
from nlgauge.perturb.parser import Token
from nlgauge.perturb.story import Story
from nlgauge.perturb.wordnet import CLASSES, WordClass, load_wordnet
from nlgauge.text.words import word_set

_MEANT = 0.7  # the share of a word's tagged uses that its first sense must have
_FAMILIAR = 3  # how often a synonym must occur in the tagged texts
_ALL = 100  # more senses than any word has


_STAYS = word_set(
    "absolutely adopt after afterward afterwards all also always answer arena army as away back batter be before rest "
    "big by calm castle choice close comment creature cupboard die disappointed do down drain easily easy effect "
    "encourage enough entire even ever extra finally first frog frustrate frustrated furnish get give go group "
    "hand haunted have high hood hour however hurt idea imagine in inch instruct jog just key kind lack last "
    "later let main make meal middle mind minute mix more mortal near neighborhood never new next night on only "
    "other out outdoors outside own packet past pay perfectly period perish person pitcher place plan poorly "
    "possibly pound pretty program project promote promotion purpose quit really recently remain reply right "
    "round salary same say scout search second secure shape shop short single site skunk sleep slow slowly so "
    "social sole someone sort state still stress sunny sweep swerve swollen take task teach tend test therapist "
    "thoroughly thought toad together too total up use very wage wave weapon well whale work year "
)
_REFUSED = word_set(
    "accent advertising advocate aged aggregation aid all along altogether arbitrarily assist awful babe beast "
    "bureau classify coalesce collar combat coming commission commonly conceive crimson crony curve decent "
    "decidedly deficiency dog drapery edifice effort employ engineering enrol equally espouse espy essay famed "
    "fleshy foliage forthwith frightening furnish fuse gag gage glance grace grouping hall healer howling hr "
    "illustrious instal invariably jerk laugh laughter lay madly mamma merely metropolis mill min minor mortal "
    "noted nutrient occupant older ordinarily ornament pa petition picket pop preaching presently pretty print "
    "procure publicity puncher put react recruit regain remuneration retaliation sanction scarcely scheme "
    "sentinel sentry sheer slug soiled someone springtime spy squall sure swoop terra terror thwart trader try "
    "unclean uneasily unify upshot uptake vain vast voting wacky warfare wholly withal withstand wondrous workout "
    "yr "
)
_TRUSTED: dict[WordClass, str] = {
    "noun": "kid:child child:kid movie:film plane:airplane gym:gymnasium math:mathematics toy:plaything "
    "owner:proprietor rock:stone story:tale vacation:holiday package:parcel mistake:error bike:bicycle "
    "trash:rubbish grandpa:grandfather grandfather:grandpa wallet:billfold bush:shrub restaurant:eatery "
    "husband:hubby team:squad adult:grownup backpack:knapsack backpack:rucksack vet:veterinarian smell:odor "
    "dad:daddy burger:hamburger dress:frock part:portion question:query bathtub:tub tub:bathtub "
    "tornado:twister stomach:tummy vegetable:veggie buddy:pal roommate:roomie boyfriend:beau singer:vocalist "
    "ad:advertisement condo:condominium ",
    "verb": "start:begin begin:start happen:occur occur:happen jump:leap allow:permit permit:allow complete:finish "
    "remember:recall hug:embrace rent:lease ruin:destroy waste:squander beg:implore regret:rue "
    "ignore:disregard suggest:propose enjoy:relish shut:close ",
    "adj": "scared:frightened frightened:scared sick:ill wonderful:marvelous wonderful:terrific boring:tedious "
    "delicious:delectable delicious:scrumptious grateful:thankful thankful:grateful difficult:hard "
    "amazing:astonishing famous:renowned furious:enraged funny:comical drunk:intoxicated comfortable:comfy "
    "lonely:lonesome tiny:diminutive ",
    "adv": "quickly:rapidly suddenly:abruptly unfortunately:regrettably immediately:instantly eventually:finally "
    "extremely:exceedingly actually:really ",
}
_WITH_TO = frozenset(("want", "begin", "start", "try", "attempt"))
_ONLY_WITH_TO = frozenset(("try", "attempt", "start", "begin"))
_WITH_OBJECT = word_set("hide conceal choose select build construct")
_COMPLEMENTS = frozenset(("xcomp", "ccomp", "dative", "prt", "agent", "acomp", "oprd"))


@dataclass(frozen=True, kw_only=True)
class Synonyms(Perturbation):
    """Up to `most` words become synonyms: 2 in the released code for short stories, 5 for those of WritingPrompts."""

    name: ClassVar[str] = "synonyms"
    kind: ClassVar[Kind] = "robustness"
    paper: ClassVar[str] = "OpenMEVA (Guan et al. 2021), Table 2"
    parses: ClassVar[bool] = True

    most: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.most < 1:
            raise OptionError(f"synonyms:most={self.most}; expected 1 or more words, such as 2")

    def prepare(self) -> None:
        """Refuse to begin without the parser or WordNet."""
        super().prepare()
        load_wordnet()

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:  # noqa: ARG002 - the contract
        """Draw words that have synonyms, then a synonym of each."""
        words = {token.place: found for token in story.tokens if (found := substitutes(story, token))}
        if not words:
            return Unchanged("no word has a synonym that fits its place")
        edits: list[Edit] = []
        for place in draw.sample(list(words), min(self.most, len(words))):
            new = draw.choice(words[place])
            edits += replaced(story, story.tokens[place], new)
        return edited(story.text, edits, "synonym")


def substitutes(story: Story, token: Token) -> list[str]:
    """The synonyms that may stand in a token's place, in its form."""
    lemma = token.lemma.lower()
    if token.pos not in CLASSES or not token.text.isalpha() or token.tag.startswith("NNP") or lemma in _STAYS:
        return []
    if (token.pos == "VERB" and not _plain_verb(story, token)) or (
        token.pos == "NOUN" and not _plain_noun(story, token)
    ):
        return []
    if token.tag in ("JJR", "JJS", "RBR", "RBS") or "as" in _neighbours(story, token):
        return []
    forms = (in_form_of(word, token) for word in same_meaning(lemma, CLASSES[token.pos]))
    return [form for form in forms if form is not None and form.lower() != token.text.lower()]


@lru_cache(maxsize=50_000)
def same_meaning(lemma: str, word_class: WordClass) -> tuple[str, ...]:
    """Synonyms of a word: trusted ones, and those by the first sense of both, where both mostly mean that."""
    known = load_wordnet().synonyms(lemma, word_class, senses=_ALL)
    trusted = (new for old, _, new in (pair.partition(":") for pair in _TRUSTED[word_class].split()) if old == lemma)
    return tuple(dict.fromkeys([*(word for word in trusted if word in known), *_by_first_sense(lemma, word_class)]))


def _by_first_sense(lemma: str, word_class: WordClass) -> tuple[str, ...]:
    wordnet = load_wordnet()
    counts = wordnet.counts(lemma, word_class)
    if not counts or counts[0] < max(1, _MEANT * sum(counts)):
        return ()
    sense = wordnet.senses(lemma, word_class)[0]
    found = []
    for number, word in enumerate(sense.words, 1):
        if word == lemma or number in sense.restricted or word in _REFUSED or not (word.isalpha() and word.islower()):
            continue
        theirs = wordnet.counts(word, word_class)
        first = wordnet.senses(word, word_class)[0].offset == sense.offset
        if first and sum(theirs) >= _FAMILIAR and theirs[0] >= _MEANT * sum(theirs) and len(word) > 2:
            found.append(word)
    return tuple(word for word in found if word_class != "noun" or not word.endswith("s") or word.endswith("ss"))


def _plain_verb(story: Story, token: Token) -> bool:
    """A verb with an object or nothing after it: no particle, no clause and no second object, which synonyms lack."""
    below = children(story, token)
    relations = {child.relation for child in below}
    lemma = token.lemma.lower()
    if lemma in _ONLY_WITH_TO:
        return "xcomp" in relations
    if lemma in _WITH_TO:
        return not relations & (_COMPLEMENTS - {"xcomp"})
    if any(child.relation == "prep" and child.text.lower() in ("to", "for", "of", "up") for child in below):
        return False
    if lemma in _WITH_OBJECT and not relations & {"dobj", "nsubjpass"}:
        return False
    return token.relation != "amod" and not relations & _COMPLEMENTS


def _plain_noun(story: Story, token: Token) -> bool:
    """A noun by itself, with an article or the like: neither part of a compound nor of a set phrase ("by chance")."""
    if token.relation in ("compound", "npadvmod", "nmod"):
        return False
    below = {child.relation for child in children(story, token)}
    if "compound" in below or "nmod" in below:
        return False
    return token.tag == "NNS" or bool(below & {"det", "poss", "amod", "nummod"})


def _neighbours(story: Story, token: Token) -> list[str]:
    places = (token.place - 1, token.place + 1)
    return [story.tokens[place].text.lower() for place in places if 0 <= place < len(story.tokens)]
