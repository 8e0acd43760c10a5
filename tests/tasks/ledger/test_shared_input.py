"""One input in several accounts: of one family, whose topmost account pays for all of it."""

from fractions import Fraction

import pytest

from dp_core.errors import BudgetRefused, DataRefused
from tasks.ledger.ledger import Ledger
from tests.both_writers import both_writers
from tests.ledgers import HOME, KEY, LAPLACE, basic, fit, open_town
from tests.specs import plan_of

DATA = "the same data"


@pytest.fixture
def family(ledger_url):
    """A ledger with `rand`, two accounts within it, one within those, and `other` beside it."""
    ledger = Ledger(ledger_url)
    open_town(ledger, "rand", basic("2", "0"))
    for name, above in (("anna", "rand"), ("bert", "rand"), ("bert-2", "bert"), ("carl", "rand")):
        open_town(ledger, name, basic("1.5", "0"), within=above)
    open_town(ledger, "other", basic("9", "0"))
    open_town(ledger, "other-anna", basic("9", "0"), within="other")
    return ledger


def use(ledger, folder, account, *, data=DATA):
    """Make a release of epsilon 1 about the data from an account."""
    release = f"of-{account}"
    plan = plan_of(
        folder / account, LAPLACE, release=release, account=account, privacy="{epsilon: 1}"
    )
    with both_writers(ledger, release, HOME) as writer:
        return writer.settle(fit(writer, plan, data, ("one_way", "measure")), "finished")


@pytest.mark.parametrize(
    ("first", "second"),
    [("rand", "anna"), ("anna", "rand"), ("anna", "bert"), ("anna", "bert-2"), ("bert-2", "rand")],
)
def test_accounts_of_one_family_use_the_same_input_and_the_topmost_pays(
    family, tmp_path, first, second
):
    use(family, tmp_path, first)
    use(family, tmp_path, second)
    assert family.find_account("rand").total_left.main == 0
    family.verify(KEY)


def test_the_topmost_total_bounds_what_all_of_them_spend(family, tmp_path):
    for name in ("anna", "bert"):
        use(family, tmp_path, name)
    assert family.find_account("carl").total_left.main == Fraction(3, 2)
    with pytest.raises(BudgetRefused, match="'rand'"):
        use(family, tmp_path, "carl")


@pytest.mark.parametrize("account", ["other", "other-anna"])
def test_an_account_of_another_family_is_refused_the_input(family, tmp_path, account):
    use(family, tmp_path, "anna")
    with pytest.raises(DataRefused, match="belongs to account 'anna'"):
        use(family, tmp_path, account)
    assert family.find_account(account).balance.used.main <= 1
    family.verify(KEY)


@pytest.mark.parametrize("approved", [False, True])
def test_data_of_an_account_for_approved_plans_only_need_an_approved_plan_in_every_account(
    ledger_url, tmp_path, approved
):
    ledger = Ledger(ledger_url)
    open_town(ledger, "gov", basic("9", "0"))
    open_town(ledger, "safe", basic("1", "0"), within="gov", approved_only=True)
    open_town(ledger, "free", basic("8", "0"), within="gov")
    for account in ("safe", "free") if approved else ("safe",):
        plan = plan_of(
            tmp_path / account,
            LAPLACE,
            release=f"of-{account}",
            account=account,
            privacy="{epsilon: 1}",
        )
        ledger.approve(plan.hash, by="Ana", reason="a test")
    use(ledger, tmp_path, "safe")
    if approved:
        use(ledger, tmp_path, "free")
    else:
        with pytest.raises(DataRefused, match=r"'safe' .* plans for that account need approval"):
            use(ledger, tmp_path, "free")
    ledger.verify(KEY)
