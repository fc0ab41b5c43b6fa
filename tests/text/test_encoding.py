import pytest

from bertie.text.encoding import Encoding, Slot, framed, share_google, share_huggingface

FIRST = Encoding([7, 8], [0, 0], [(0, 1), (1, 3)], [0, 0])
SECOND = Encoding([9], [0], [(0, 4)], [0])
PAIR = (Slot(0, special_id=1), Slot(0, text=0), Slot(0, special_id=2), Slot(1, text=1), Slot(1, special_id=2))


def test_framed():
    assert framed(PAIR, [FIRST, SECOND], truncated=3) == Encoding(
        ids=[1, 7, 8, 2, 9, 2],
        segments=[0, 0, 0, 0, 1, 1],
        offsets=[None, (0, 1), (1, 3), None, (0, 4), None],
        words=[None, 0, 0, None, 0, None],
        truncated=3,
    )
    assert framed(PAIR[:3], [FIRST], truncated=0).ids == [1, 7, 8, 2]


def test_a_part_has_no_more_than_its_tokens():
    assert FIRST.part(1, 2) == Encoding([8], [0], [(1, 3)], [0])
    assert len(FIRST.part(0, 0)) == 0
    FIRST.part(0, 2).ids.append(3)
    assert len(FIRST) == 2, "a part is a copy"


@pytest.mark.parametrize("share", [share_google, share_huggingface])
def test_shares_fill_the_room_and_no_text_grows(share):
    for first in range(9):
        for second in range(9):
            for room in range(20):
                kept = share(first, second, room)
                assert sum(kept) == min(room, first + second)
                assert 0 <= kept[0] <= first
                assert 0 <= kept[1] <= second
                if sum(kept) < first + second:
                    assert abs(kept[0] - kept[1]) <= 1 or kept[0] == first or kept[1] == second


def test_who_keeps_the_odd_token():
    assert share_google(9, 9, 5) == share_google(6, 9, 5) == share_google(9, 6, 5) == (3, 2)
    assert share_huggingface(9, 9, 5) == share_huggingface(6, 9, 5) == (2, 3)
    assert share_huggingface(9, 6, 5) == (3, 2)
    assert share_google(10**12, 10**12 + 1, 7) == (4, 3)
