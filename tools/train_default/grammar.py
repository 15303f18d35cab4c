"""The grammar of the little stories: words, sentences, plots. Our own text; the checker reads the same tables."""

from __future__ import annotations

GIRLS = ["Mia", "Anna", "Ella", "Nora", "Rosa", "Lucy", "Ivy", "Ada", "Tess", "Wren", "Hana", "Zoe", "Olga", "Pia"]
BOYS = ["Ben", "Leo", "Max", "Sam", "Theo", "Finn", "Omar", "Hugo", "Kai", "Noah", "Otto", "Paul", "Erik", "Luis"]
KINDS = [
    "girl", "boy", "bear", "fox", "rabbit", "mouse", "owl", "cat", "dog", "duck", "hedgehog", "squirrel", "frog", "goat",
]  # fmt: skip
MOODS = ["happy", "curious", "kind", "brave", "quiet", "cheerful", "clever", "gentle", "shy", "friendly"]
PLACES = {
    "garden": ["under the apple tree", "behind the old fence", "between the red flowers", "beside the little pond"],
    "forest": ["under the tall pine", "behind a grey rock", "between the ferns", "beside the narrow path"],
    "park": ["under the green bench", "behind the slide", "between the bushes", "beside the fountain"],
    "meadow": ["under a big leaf", "behind the hay", "between the daisies", "beside the stream"],
    "yard": ["under the wooden cart", "behind the shed", "between the pots", "beside the gate"],
    "beach": ["under the blue boat", "behind a tall dune", "between the shells", "beside the warm rocks"],
}
COLORS = ["red", "blue", "green", "yellow", "purple", "white", "orange", "silver", "golden", "pink"]
SIZES = ["small", "big", "tiny", "round", "shiny", "soft", "old", "new", "pretty", "little"]
THINGS = [
    "ball", "kite", "hat", "drum", "boat", "button", "key", "scarf", "ring", "lantern", "top", "whistle", "book", "spoon",
    "bell", "cup", "marble", "ribbon", "feather", "basket",
]  # fmt: skip
FOODS = [
    "apple pie", "warm bread", "honey cake", "carrot soup", "plum jam", "berry tart", "cheese", "corn cake",
    "pumpkin soup", "nut bread",
]  # fmt: skip
ANIMALS = ["bird", "kitten", "puppy", "turtle", "lamb", "bee", "beetle", "snail", "duckling", "butterfly"]
ELDERS = ["grandmother", "grandfather", "mother", "father", "aunt", "uncle"]
SKILLS = [
    "swim", "whistle", "climb the tall tree", "ride the old bike", "skate", "draw a horse", "play the flute", "tie a bow",
    "jump over the stream", "bake bread", "sing a high note", "juggle three stones",
]  # fmt: skip
BUILDS = ["tower", "bridge", "hut", "raft", "castle", "wall", "nest", "swing", "snow house", "wagon"]
PARTS = ["sticks", "stones", "boxes", "planks", "sand", "ropes", "leaves", "bricks"]
SOUNDS = ["knock", "squeak", "hum", "rustle", "whisper", "bump", "hiss", "scratch"]
CAUSES = [
    "the wind in the window", "an old branch", "a sleepy owl", "a mouse with a nut", "the rain on the roof", "a loose door",
    "a cat on the stairs", "a moth near the lamp",
]  # fmt: skip
WEATHER = ["sunny", "windy", "cloudy", "warm", "cold", "bright", "foggy", "snowy"]
TIMES = ["morning", "afternoon", "evening", "day"]
GAMES = ["hide and seek", "tag", "a guessing game", "cards", "checkers", "a singing game", "a counting game", "dress up"]
GIFTS = ["card", "necklace", "picture", "song", "poem", "hat", "toy boat", "flower crown", "paper star", "pillow"]
HOW = ["slowly", "carefully", "gently", "quickly", "proudly", "softly"]
NUMBERS = ["two", "three", "four", "five", "six", "seven"]

# What a name in angle brackets may stand for. <a x> is the word with "a" or "an".
SLOTS: dict[str, list[str]] = {
    "hero": GIRLS + BOYS, "friend": GIRLS + BOYS, "kind": KINDS, "kind2": KINDS, "mood": MOODS, "mood2": MOODS,
    "place": list(PLACES), "spot": [spot for spots in PLACES.values() for spot in spots],
    "spot2": [spot for spots in PLACES.values() for spot in spots], "color": COLORS, "size": SIZES, "thing": THINGS,
    "food": FOODS, "animal": ANIMALS, "elder": ELDERS, "skill": SKILLS, "build": BUILDS, "part": PARTS,
    "part2": PARTS, "sound": SOUNDS, "cause": CAUSES, "weather": WEATHER, "time": TIMES, "game": GAMES, "gift": GIFTS,
    "how": HOW, "number": NUMBERS, "he": ["he", "she"], "He": ["He", "She"], "his": ["his", "her"],
    "him": ["him", "her"], "fhe": ["he", "she"], "fhis": ["his", "her"], "fHe": ["He", "She"],
}  # fmt: skip

OPENING = [
    [
        "Once upon a time there was <a mood> <kind> named <hero>.",
        "Once there was <a mood> little <kind> called <hero>.",
        "There was once <a mood> <kind> whose name was <hero>.",
        "Long ago <a mood> <kind> named <hero> lived near a <place>.",
        "In a house near the <place> lived <a mood> <kind> called <hero>.",
        "<hero> was <a mood> <kind> who lived near a <place>.",
    ],
    [
        "<hero> liked to play in the <place>.",
        "Every <time> <he> went to the <place>.",
        "<He> loved the <place> more than any other place.",
        "<his+> best friend was <a mood2> <kind2> named <friend>.",
        "<hero> had a friend, <a mood2> <kind2> called <friend>.",
    ],
]
ONE_DAY = [
    "One <weather> <time> <hero> went to the <place>.",
    "One <weather> <time> <hero> and <friend> met in the <place>.",
    "It was a <weather> <time>, and <hero> was in the <place>.",
    "On a <weather> <time> <hero> walked to the <place> with <friend>.",
]
ENDING = [
    [
        "<hero> and <friend> laughed and went home together.",
        "From that <time> on <hero> and <friend> were the best of friends.",
        "Then <hero> and <friend> went home and ate <food>.",
        "That night <hero> slept well and dreamed of the <place>.",
        "When the moon came up, <hero> was home and very happy.",
        "<hero> told <his> <elder> all about it.",
    ],
    [
        "It had been a very good <time>.",
        "And <hero> never forgot that <time>.",
        "It is good to have a friend.",
        "The end.",
        "And they were all happy.",
    ],
]

# A plot is a list of steps; each step is a list of sentences of which one is taken.
PLOTS: dict[str, list[list[str]]] = {
    "lost": [
        [
            "<hero> had <a size> <color> <thing>.",
            "<He> brought <his> <color> <thing>.",
            "<his+> <elder> had given <him> <a size> <color> <thing>.",
        ],
        [
            "<hero> played with the <thing> for a long time.",
            "<He> showed the <thing> to <friend>.",
            "<hero> carried the <thing> everywhere.",
        ],
        [
            "Then <he> looked down, and the <thing> was gone!",
            "But suddenly the <thing> was gone.",
            "But when it was time to go, <hero> could not find the <thing>.",
        ],
        [
            "\"Where is my <thing>?\" asked <hero>.",
            "\"Oh no, I lost my <thing>!\" said <hero>.",
            "<hero> was very sad and began to cry.",
        ],
        [
            "\"Do not worry, I will help you,\" said <friend>.",
            "\"Let us look for it together,\" said <friend>.",
            "<friend> wanted to help <him>.",
        ],
        [
            "They looked <spot>, but it was not there.",
            "First they looked <spot>.",
            "<hero> looked <spot>, and <friend> looked <spot2>.",
        ],
        [
            "At last <friend> found the <thing> <spot2>.",
            "Then <hero> saw something <color> <spot2>, and it was the <thing>!",
            "And there it was, <spot2>!",
        ],
        [
            "\"Thank you, <friend>!\" said <hero>.",
            "<hero> was so happy that <he> hugged <friend>.",
            "\"You are a good friend,\" said <hero>.",
        ],
    ],
    "share": [
        [
            "<hero> had some <food> in <his> basket.",
            "<his+> <elder> had made <food> for <him>.",
            "<hero> and <his> <elder> had made <food>.",
        ],
        [
            "It smelled very good.",
            "<He> could not wait to eat it.",
            "It was still warm.",
        ],
        [
            "Then <friend> came by and looked sad.",
            "On the way <he> met <friend>, who looked tired.",
            "<friend> sat <spot> and did not smile.",
        ],
        [
            "\"What is wrong?\" asked <hero>.",
            "\"Why are you sad?\" asked <hero>.",
        ],
        [
            "\"I am so hungry,\" said <friend>.",
            "\"I have nothing to eat,\" said <friend>.",
            "\"I forgot my lunch at home,\" said <friend>.",
        ],
        [
            "<hero> thought for a moment.",
            "<hero> looked at the <food>, and then at <friend>.",
            "It was not very much, but <hero> was kind.",
        ],
        [
            "\"You can have half of my <food>,\" said <hero>.",
            "<He> gave half of the <food> to <friend>.",
            "\"Let us share,\" said <hero>.",
        ],
        [
            "They sat <spot2> and ate together.",
            "It tasted better than ever.",
            "\"Thank you, this is so good!\" said <friend>.",
        ],
    ],
    "learn": [
        [
            "<hero> wanted to learn to <skill>.",
            "There was one thing <hero> could not do: <he> could not <skill>.",
            "More than anything <hero> wished to <skill>.",
        ],
        [
            "<He> tried once, but it did not work.",
            "<He> tried <number> times, and each time it went wrong.",
            "The first time <he> tried, everybody laughed.",
        ],
        [
            "\"I will never learn it,\" said <hero>.",
            "\"It is too hard for me,\" said <hero>.",
            "<hero> sat <spot> and felt sad.",
        ],
        [
            "But <friend> said, \"Try again, I will watch you.\"",
            "But <his> <elder> said, \"Do it <how>, one step at a time.\"",
            "\"I needed <number> days to learn it,\" said <friend>.",
        ],
        [
            "So <hero> tried again every <time>.",
            "So <hero> took a deep breath and tried once more.",
            "<hero> practiced <how> for <number> days.",
        ],
        [
            "And one <time> <he> could <skill>!",
            "And then, all at once, it worked!",
            "On the last <time> <hero> could <skill> all alone.",
        ],
        [
            "\"Look, I can do it!\" said <hero>.",
            "\"I knew you could do it!\" said <friend>.",
            "<his+> <elder> was very proud.",
        ],
    ],
    "rescue": [
        [
            "Suddenly <hero> heard a tiny voice <spot>.",
            "<spot+> <hero> saw a little <animal>.",
            "<hero> found a little <animal> <spot>.",
        ],
        [
            "It was a <animal>, and it could not move.",
            "The <animal> was cold and afraid.",
            "The poor <animal> had lost its way.",
        ],
        [
            "\"Please help me,\" said the <animal>.",
            "\"I want to go home,\" said the <animal>.",
            "\"Do not be afraid,\" said <hero>.",
        ],
        [
            "<hero> <how> picked up the <animal>.",
            "<hero> put the <animal> in <his> hat.",
            "<hero> gave the <animal> some water.",
        ],
        [
            "Then <he> ran to <friend> for help.",
            "<friend> brought a warm blanket.",
            "\"I know where it lives,\" said <friend>.",
        ],
        [
            "They carried the <animal> to its home <spot2>.",
            "After <number> days the <animal> was well again.",
            "Together they brought the <animal> back to its family.",
        ],
        [
            "\"Thank you for your help,\" said the <animal>.",
            "The <animal> was safe at last.",
            "The <animal> looked back once and was gone.",
        ],
    ],
    "sound": [
        [
            "At night <hero> heard a strange <sound>.",
            "In the dark there was a <sound> near <his> bed.",
            "When <he> came home, there was a <sound> in the house.",
        ],
        [
            "<hero> was afraid and hid under the blanket.",
            "<his+> heart beat very fast.",
            "\"Who is there?\" asked <hero>.",
        ],
        [
            "But nobody answered.",
            "Then there was another <sound>.",
            "It was very quiet, and then came the <sound> again.",
        ],
        [
            "<hero> called <friend>, and they took a lamp.",
            "<hero> took a lamp and walked <how> to the door.",
            "\"Let us look together,\" said <friend>.",
        ],
        [
            "They looked in every corner.",
            "They opened the door <how>.",
            "Step by step they came nearer.",
        ],
        [
            "And what was it? It was only <cause>!",
            "It was only <cause>!",
            "There they saw it: it was just <cause>.",
        ],
        [
            "<hero> had to laugh.",
            "\"I was afraid of nothing,\" said <hero>.",
            "Now <hero> was not afraid of the dark any more.",
        ],
    ],
    "build": [
        [
            "\"Let us build a <build>!\" said <hero>.",
            "<hero> had an idea: they could build a <build>.",
            "<hero> and <friend> wanted to build a <build>.",
        ],
        [
            "They took <part> and <part2>.",
            "<hero> brought <part>, and <friend> brought <part2>.",
            "They needed a lot of <part>.",
        ],
        [
            "They worked all <time>.",
            "They worked <how> and sang a song.",
            "It was hard work.",
        ],
        [
            "But then the wind came, and the <build> fell down.",
            "But the <build> was too weak and broke.",
            "When they were almost done, the <build> fell over.",
        ],
        [
            "\"All our work is gone,\" said <friend>.",
            "<friend> was angry, and <hero> was sad.",
            "They looked at each other and did not know what to do.",
        ],
        [
            "\"We can build it again, and better,\" said <hero>.",
            "\"This time we use more <part2>,\" said <hero>.",
            "<his+> <elder> showed them how to do it well.",
        ],
        [
            "They built a new <build>, and it was strong.",
            "The second <build> was even better than the first.",
            "This time the <build> did not fall.",
        ],
    ],
    "rain": [
        [
            "<hero> wanted to play outside with <friend>.",
            "<hero> and <friend> wanted to fly a kite.",
            "<hero> had waited for this <time> all week.",
        ],
        [
            "But dark clouds came, and it began to rain.",
            "But then it rained and rained.",
            "Suddenly there was thunder, and the rain came.",
        ],
        [
            "\"Now we can not play,\" said <friend>.",
            "\"What shall we do now?\" asked <hero>.",
            "<hero> looked out of the window and was sad.",
        ],
        [
            "\"We can play <game>,\" said <friend>.",
            "<his+> <elder> said, \"You could play <game>.\"",
            "Then <hero> had an idea.",
        ],
        [
            "They played <game> and laughed a lot.",
            "They sat by the fire and played <game>.",
            "They played <game> <number> times, and <friend> won.",
        ],
        [
            "They did not even see that the rain had stopped.",
            "Then the sun came out again.",
            "After a while there was a rainbow over the <place>.",
        ],
        [
            "\"Look, a rainbow!\" said <hero>.",
            "\"Rain is not so bad,\" said <hero>.",
            "They ran outside and jumped in every puddle.",
        ],
    ],
    "gift": [
        [
            "It was the birthday of <friend>.",
            "Soon <friend> would have a birthday.",
            "<hero> wanted to make <friend> happy.",
        ],
        [
            "<hero> had no money for a gift.",
            "\"What can I give to <friend>?\" thought <hero>.",
            "<hero> wanted to give <fhis> best friend something nice.",
        ],
        [
            "So <he> asked <his> <elder>.",
            "<He> thought about it for <number> days.",
            "\"The best gifts are made by hand,\" said <his> <elder>.",
        ],
        [
            "So <hero> made <a color> <gift>.",
            "<hero> took paper and glue and made a <gift>.",
            "<hero> worked <how> and made a <size> <gift>.",
        ],
        [
            "It took all <time>.",
            "It was not perfect, but it was made with love.",
            "<He> hid it <spot>.",
        ],
        [
            "When <friend> saw the <gift>, <fhe> smiled.",
            "<friend> opened the box and saw the <gift>.",
            "\"Is this <gift> for me?\" asked <friend>.",
        ],
        [
            "\"It is the best gift of all,\" said <friend>.",
            "\"You made this for me? Thank you!\" said <friend>.",
            "<friend> was so happy that <fhe> danced.",
        ],
    ],
}


def sentences() -> list[str]:
    """Every sentence of the grammar, each once."""
    steps = [*OPENING, ONE_DAY, *ENDING, *(step for plot in PLOTS.values() for step in plot)]
    return list(dict.fromkeys(sentence for step in steps for sentence in step))
