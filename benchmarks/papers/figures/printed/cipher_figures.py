"""Figures 1 to 7 and Tables 1 and 2 of CIPHER (Eugenio & Liu 2021)."""

from __future__ import annotations

from benchmarks.papers.cipher import TABLE_2
from benchmarks.papers.figures.experiment import Setting
from benchmarks.papers.figures.experiments.cipher_experiments import CELLS
from benchmarks.papers.figures.view import Claim, Drawing, Figure, View

PAPER = "CIPHER"
EPSILON = "epsilon"
ROWS = ("rows",)


def cost(setting: Setting) -> float:
    """Return the part of the 36 cells that a method stores: the paper's cost."""
    return CELLS.get(str(setting["method"]).split(",")[0], 36) / 36


SIMULATED = "cipher-simulated"
ASIDE = "the data themselves"
TVD = tuple(
    View(f"TVD of {order}-way x cost", (f"tvd {order}",), weight=cost, spread=True)
    for order in (3, 2, 1)
)
PLAIN = tuple(View(f"TVD of {order}-way", (f"tvd {order}",), spread=True) for order in (3, 2, 1))
LARGEST = tuple(
    View(f"largest error, {order}-way x cost", (f"largest {order}",), weight=cost, spread=True)
    for order in (2, 3)
)
PLAIN_LARGEST = tuple(
    View(f"largest error, {order}-way", (f"largest {order}",), spread=True) for order in (2, 3)
)
METHODS = (
    "FDH",
    "CIPHER 2-way, as published",
    "CIPHER 3-way, as published",
    "CIPHER 2-way",
    "CIPHER 3-way",
    "MWEM 2-way",
)
TOLD = {"method": METHODS}

FIGURES = (
    Figure(
        "cipher-1",
        PAPER,
        "Figure 1",
        "numbers of stored cells by columns",
        Drawing(
            ("cipher-stored-cells",),
            "columns",
            (View("log2 of stored cells", ("log2 cells",)),),
            panels=("levels",),
            lines=("tables",),
        ),
        claims=(
            Claim(
                "Low-order tables reduce the number of stored cells drastically.",
                "in part",
                "From p = 6 on; at the experiment's 2 x 2 x 3 x 3 pairs need 20 of 36. These are"
                " numbers of cells that do not follow from the others, as the paper counts; all"
                " cells of its six pairs are 37, more than the full table has.",
            ),
        ),
    ),
    Figure(
        "cipher-2",
        PAPER,
        "Figure 2",
        "cost-normalised TVD, n = 200 and 500",
        Drawing((SIMULATED,), EPSILON, TVD, panels=ROWS, where=TOLD),
        claims=(
            Claim(
                "CIPHER 2-way is best after normalisation, above all at small epsilon.",
                "in part",
                "Of FDH and the printed forms, 2-way is best at e^-2, with 200 records at e^-1 too"
                " (.28 and .33, triples); from 1 on FDH is best. The division by the number of"
                " cells decides; in error itself FDH is before the printed form everywhere.",
            ),
            Claim(
                "CIPHER 3-way is inferior to 2-way.",
                "in part",
                "After normalisation, but for e^2 with 500 records; in error itself triples are"
                " nearer up to 1.",
            ),
            Claim(
                "MWEM hardly changes with epsilon.", "confirmed", "It stays near the even table."
            ),
        ),
    ),
    Figure(
        "cipher-2-plain",
        PAPER,
        "Figure 2, not normalised",
        "TVD, n = 200 and 500",
        Drawing((SIMULATED,), EPSILON, PLAIN, panels=ROWS, where=TOLD),
    ),
    Figure(
        "cipher-3",
        PAPER,
        "Figure 3 (and supplement)",
        "cost-normalised largest error of a cell",
        Drawing((SIMULATED,), EPSILON, LARGEST, panels=ROWS, where=TOLD),
        claims=(
            Claim(
                "CIPHER 2-way and FDH are similar, 2-way slightly better at e^-2; 3-way is second.",
                "in part",
                "n = 200, pairs, printed form: .21 and .24 at e^-2, but .18 and .13 at 1 (.13 where"
                " tables agree). 3-way is behind both: .28 and .24.",
            ),
            Claim(
                "MWEM does not yield the optimal largest error of its queries.",
                "in part",
                "It does up to epsilon 1 (.06, by staying near the even table), and is level"
                " at e; at e^2 it is twice as far off as FDH.",
            ),
        ),
    ),
    Figure(
        "cipher-3-plain",
        PAPER,
        "Figure 3, not normalised",
        "largest error of a cell",
        Drawing((SIMULATED,), EPSILON, PLAIN_LARGEST, panels=ROWS, where=TOLD),
    ),
    Figure(
        "cipher-4",
        PAPER,
        "Figure 4 (and supplement)",
        "bias, RMSE and coverage of ten coefficients",
        Drawing(
            (SIMULATED,),
            EPSILON,
            (
                View("mean |bias| x cost", ("error *",), "absolute mean", weight=cost),
                View("RMSE x cost", ("error *",), "rms", weight=cost),
                View("coverage of 95 %", ("covered *",)),
                View("width", ("width *",), log=True),
            ),
            panels=ROWS,
        ),
        claims=(
            Claim(
                "CIPHER and FDH cover at about 95 %.",
                "confirmed",
                "At .96 to 1.00, by intervals up to 7 times as wide as those of the data.",
            ),
            Claim("2-way has the better normalised RMSE.", "confirmed", "20/36 against 32/36."),
            Claim(
                "MWEM has the smallest RMSE up to epsilon 1, and under-covers.",
                "confirmed",
                "Its coefficients stay near 0, where half of the true ones are.",
            ),
        ),
    ),
    Figure(
        "cipher-5",
        PAPER,
        "Figure 5",
        "sign and significance of nine slopes",
        Drawing((SIMULATED,), EPSILON, (), panels=ROWS, where=TOLD, kind="bars"),
        claims=(
            Claim("Undesirable outcomes are the shortest bars.", "confirmed", "At most 2 %."),
            Claim(
                "FDH preserves best, followed closely by CIPHER.",
                "in part",
                "Closely only at e^-2, where Best is what chance gives.",
            ),
        ),
    ),
    Figure(
        "cipher-6",
        PAPER,
        "Figure 6",
        "log-odds of Best by coefficient, normalised by cost",
        Drawing(
            (SIMULATED,),
            EPSILON,
            tuple(
                View(f"slope {number}", (f"best {number}",), "log odds")
                for number in range(1, 10, 2)
            ),
            panels=ROWS,
            where=TOLD,
        ),
        claims=(
            Claim(
                "The odds of CIPHER and FDH are similar, 3-way the best at small epsilon.",
                "in part",
                "Similar up to e^-1, where they are chance; from 1 on FDH is ahead, then 3-way,"
                " and 2-way stops at the slopes of interactions. Drawn without cost: to multiply"
                " a log-odds by a cost moves it to 0, whichever sign it has.",
            ),
            Claim("MWEM does not improve with epsilon.", "confirmed", "See the table."),
        ),
    ),
    Figure(
        "cipher-7",
        PAPER,
        "Figure 7",
        "sign and significance, bankruptcy data",
        Drawing(
            ("cipher-bankruptcy",),
            EPSILON,
            (),
            panels=("sets",),
            where={"sets": (5,)},
            kind="bars",
        ),
        claims=(
            Claim("Bad outcomes are close to 0.", "confirmed", "Nearly nothing is significant."),
        ),
    ),
    Figure(
        "cipher-table-1",
        PAPER,
        "Table 1",
        "definition of the SSS assessment",
        reason="A definition: `dp_core.lab.measures.inference_agreement`.",
    ),
    Figure(
        "cipher-table-2",
        PAPER,
        "Table 2",
        "accuracy of a classifier, bankruptcy data (the tree is ours)",
        Drawing(
            ("cipher-bankruptcy",),
            EPSILON,
            (View("support vector machine", ("svm",)), View("decision tree", ("tree",))),
            panels=("sets",),
            paper={
                label: {epsilon: row[index] / 100 for epsilon, row in TABLE_2.items()}
                for index, label in enumerate(("CIPHER, as published", "MWEM", "FDH"))
            },
        ),
        claims=(
            Claim(
                "CIPHER is the obvious winner up to epsilon 1, its accuracy roughly constant.",
                "refuted",
                "With 5 sets .51 and .55 at e^-2 and e^-1, where a guess has .50; from 1 on it is"
                " level with FDH, and with one set a little behind it.",
            ),
            Claim("MWEM stays near 50 %.", "in part", "At m = 5 up to e; not at m = 1."),
        ),
    ),
)
