"""Estimators in scikit-learn's form: alone, and inside its own tools."""

import numpy as np
import pytest

from bertie.tasks.estimators import (
    MultipleChoice,
    QuestionAnswerer,
    SentenceEncoder,
    TextClassifier,
    TextRegressor,
    TokenTagger,
)

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = ["the cat sat", "the dog sat", "who on cat", "dog on mat"] * 6
CATS = [1, 0, 1, 0] * 6
QUICK = {"epochs": 25, "lr": 3e-3, "batch": 8, "max_length": 16, "device": "cpu", "settings": ("dropout=0.0",)}


@pytest.fixture
def classifier(model_folder):
    return TextClassifier(model_folder, **QUICK)


def test_a_classifier(classifier, tmp_path):
    assert classifier.fit(TEXTS, CATS) is classifier
    assert classifier.classes_.tolist() == [0, 1]
    assert classifier.predict(TEXTS[:4]).tolist() == CATS[:4]
    assert classifier.predict(np.array(TEXTS[:4], dtype=object)).dtype == classifier.classes_.dtype
    assert classifier.predict_proba(TEXTS[:3]).sum(1) == pytest.approx([1, 1, 1])
    assert classifier.score(TEXTS, CATS) == 1
    assert classifier.predict([]).tolist() == []
    classifier.save(tmp_path / "saved")
    again = TextClassifier.load(tmp_path / "saved", "cpu")
    assert again.predict_proba(TEXTS[:4]) == pytest.approx(classifier.predict_proba(TEXTS[:4]))
    assert again.classes_.tolist() == ["0", "1"]


def test_pairs_and_names(classifier):
    pairs = [(text, "the cat") for text in TEXTS]
    labels = ["yes" if one else "no" for one in CATS]
    assert classifier.fit(pairs, labels).predict(pairs[:4]).tolist() == labels[:4]


LABELS = [["sat", "cat"], ["dog", "sat"], ["cat"], ["dog"]] * 6


def test_several_labels_as_lists(classifier, tmp_path):
    classifier.set_params(epochs=40, batch=4).fit(TEXTS, LABELS)
    assert classifier.classes_.tolist() == ["cat", "dog", "sat"]
    found = classifier.predict(TEXTS[:4])
    assert [set(one) for one in found] == [set(one) for one in LABELS[:4]]
    shares = classifier.predict_proba(TEXTS[:4])
    assert (shares > 0.5).tolist() == [["cat" in one, "dog" in one, "sat" in one] for one in LABELS[:4]]
    assert classifier.score(TEXTS, LABELS) == 1
    assert classifier.score(TEXTS[:4], [["cat"], ["sat", "dog"], ["cat"], ["mat"]]) == 0.5
    assert classifier.predict([]).tolist() == []
    classifier.save(tmp_path / "saved")
    again = TextClassifier.load(tmp_path / "saved", "cpu")
    assert again.predict(TEXTS[:4]).tolist() == found.tolist()
    numbers = [[3 + 4 * ("cat" in one)] for one in LABELS]
    assert classifier.fit(TEXTS, numbers).predict(TEXTS[:4]).tolist() == numbers[:4]


def test_several_labels_as_a_matrix(classifier):
    pytest.importorskip("sklearn")
    from sklearn.model_selection import cross_validate
    from sklearn.preprocessing import MultiLabelBinarizer
    from sklearn.utils import get_tags

    classifier.set_params(epochs=40, batch=4)
    assert get_tags(classifier).classifier_tags.multi_label
    binarizer = MultiLabelBinarizer()
    matrix = binarizer.fit_transform(LABELS)
    found = classifier.fit(TEXTS, matrix).predict(TEXTS)
    assert found.dtype == np.int64
    assert found.tolist() == matrix.tolist()
    assert classifier.classes_.tolist() == [0, 1, 2]
    assert {frozenset(one) for one in binarizer.inverse_transform(found)} == {frozenset(one) for one in LABELS}
    assert classifier.score(TEXTS, matrix.astype(bool)) == 1
    scores = cross_validate(classifier, TEXTS, matrix, cv=2, scoring=("f1_micro", "roc_auc"))
    assert scores["test_f1_micro"].min() > 0.8  # one answer for all: 2/3
    assert scores["test_roc_auc"].min() > 0.8


def test_a_regressor(model_folder):
    regressor = TextRegressor(model_folder, **QUICK).fit(TEXTS, [10.0 * one for one in CATS])
    assert regressor.predict(TEXTS[:4]) == pytest.approx([10, 0, 10, 0], abs=2.5)
    assert regressor.score(TEXTS, [10.0 * one for one in CATS]) > 0.9
    assert regressor.score(TEXTS, [1.0] * len(TEXTS)) == 0


def test_the_others(model_folder, tmp_path):
    words = [("the", "cat", "sat"), ("the", "dog", "sat")] * 10
    tags = [("O", "B-CAT", "O"), ("O", "B-DOG", "O")] * 10
    tagger = TokenTagger(model_folder, **QUICK).fit(words, tags)
    assert tagger.predict(words[:2]) == [list(one) for one in tags[:2]]
    assert tagger.score(words, tags) == 1
    assert tagger.classes_.tolist() == ["O", "B-CAT", "B-DOG"]
    shares = tagger.predict_proba([*words[:2], ()])
    assert [one.shape for one in shares] == [(3, 3), (3, 3), (0, 3)]
    assert shares[0].sum(1) == pytest.approx([1, 1, 1])
    assert [tagger.classes_[one].tolist() for one in shares[1].argmax(1)] == list(tags[1])
    questions = [("who", "the cat sat"), ("who", "the dog sat"), ("who", "on the mat")] * 8
    answers = [["cat"], ["dog"], []] * 8
    reader = QuestionAnswerer(model_folder, **{**QUICK, "epochs": 40}).fit(questions, answers)
    assert reader.predict(questions[:3]) == ["cat", "dog", ""]
    assert reader.score(questions, answers) == 1
    weighed = reader.predict_proba(questions[:3])
    assert [max(one, key=one.get) for one in weighed] == ["cat", "dog", ""]
    assert [sum(one.values()) for one in weighed] == pytest.approx([1, 1, 1])
    endings = [("who", ["cat", "dog", "sat"]), ("who", ["sat", "cat"])] * 10
    chooser = MultipleChoice(model_folder, **QUICK).fit(endings, [0, 1] * 10)
    assert chooser.predict(endings[:2]) == [0, 1]
    assert chooser.score(endings, [0, 1] * 10) == 1
    assert [np.argmax(one) for one in chooser.predict_proba(endings[:2])] == [0, 1]
    assert [sum(one) for one in chooser.predict_proba([*endings[:1], ("who", ["cat", "dog", "mat"])])] == pytest.approx(
        [1, 1]
    )
    chooser.save(tmp_path / "saved")
    assert MultipleChoice.load(tmp_path / "saved", "cpu").predict(endings[:2]) == [0, 1]


def test_inside_scikit_learn(classifier, model_folder):
    pytest.importorskip("sklearn")
    from sklearn.base import clone, is_classifier, is_regressor
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    assert is_classifier(classifier)
    assert is_regressor(TextRegressor(model_folder))
    copy = clone(classifier)
    assert copy.get_params() == classifier.get_params()
    assert cross_val_score(classifier, TEXTS, CATS, cv=2) == pytest.approx([1, 1])
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    pipeline = make_pipeline(lower, classifier)
    assert pipeline.fit(TEXTS, CATS).score(TEXTS, CATS) == 1
    search = GridSearchCV(classifier, {"epochs": [1, 25]}, cv=2).fit(TEXTS, CATS)
    assert search.best_params_ == {"epochs": 25}
    regressor = TextRegressor(model_folder, **QUICK)
    assert cross_val_score(regressor, TEXTS, [float(one) for one in CATS], cv=2).mean() > 0.5


@pytest.mark.parametrize(
    "kind", [TextClassifier, TextRegressor, TokenTagger, QuestionAnswerer, MultipleChoice, SentenceEncoder]
)
def test_the_checks_of_scikit_learn_that_need_no_table_of_numbers(kind, model_folder):
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    for check in (
        checks.check_do_not_raise_errors_in_init_or_set_params,
        checks.check_estimator_cloneable,
        checks.check_estimator_repr,
        checks.check_estimator_tags_renamed,
        checks.check_get_params_invariance,
        checks.check_no_attributes_set_in_init,
        checks.check_set_params,
        checks.check_valid_tag_types,
    ):
        check(kind.__name__, kind(model_folder))


def test_the_same_seed_gives_the_same(classifier):
    first = classifier.fit(TEXTS, CATS).predict_proba(TEXTS)
    assert np.array_equal(first, classifier.fit(TEXTS, CATS).predict_proba(TEXTS))


def test_a_model_of_another_kind_is_not_loaded(model_folder, tmp_path):
    TextRegressor(model_folder, **{**QUICK, "epochs": 1}).fit(TEXTS, CATS).save(tmp_path / "saved")
    with pytest.raises(ValueError, match="saved holds a model for regress, which TextClassifier is not for"):
        TextClassifier.load(tmp_path / "saved", "cpu")


class Sparse:
    """What a matrix of scipy shows of itself."""

    ndim, shape = 2, (2, 2)


def test_what_is_refused(classifier):
    for call, message in (
        (lambda: classifier.predict(["a"]), "has learned nothing yet: call fit"),
        (lambda: classifier.fit(["a", "b"], [1, 1]), r"one class only, \[1\]"),
        (lambda: classifier.fit(["a", "b"], [1]), "X has 2 examples, y 1 labels"),
        (lambda: classifier.fit("ab", [1, 0]), "X is a single text"),
        (lambda: classifier.fit(["a", 3], [1, 0]), r"X\[1\] is 3; give a text"),
        (lambda: classifier.fit(["a", ("b", "c")], [1, 0]), r"X\[1\] has 2 texts, X\[0\] 1"),
        (lambda: classifier.fit(["a", "b", "c"], [1, None, 0]), r"y\[1\] is None: give each example its label"),
        (lambda: classifier.fit(["a", "b", "c"], [1.0, 0.0, float("nan")]), r"y\[2\] is nan: give each example"),
        (
            lambda: MultipleChoice(classifier.model, **QUICK).fit([("a", ["b", "c"]), ("a", ["b", "c"])], [0, 2]),
            r"^X\[1\]: the right ending is 2; allowed: 0, 1",
        ),
        (
            lambda: QuestionAnswerer(classifier.model, **QUICK).fit([("who", "the cat sat")], [["dog"]]),
            r"^X has no example that can be learned from",
        ),
        (lambda: classifier.fit(["a", "b"], [["x"], "y"]), r"y\[1\] is a single label, others are lists"),
        (lambda: classifier.fit(["a", "b"], [["x"], [None]]), r"y\[1\]\[0\] is None: give each example its label"),
        (lambda: classifier.fit(["a", "b"], [[0, 0], [0, 1]]), r"y\[0\] is \[0, 0\], which has a label twice"),
        (lambda: classifier.fit(["a", "b"], [[], []]), r"no label at all, \[\]"),
        (lambda: classifier.fit(["a", "b"], np.array([[0, 2], [1, 0]])), "ndarray that is no matrix of 0 and 1"),
        (lambda: classifier.fit(["a", "b"], np.array([[0], [1]])), "y has one column: .* y.ravel"),
        (lambda: classifier.fit(["a", "b"], Sparse()), r"that is no matrix of 0 and 1: .* its toarray\(\)"),
        (lambda: classifier.set_params(depth=3), "has no setting 'depth'; it has model, recipe"),
        (lambda: classifier.set_params(lr=-1.0).fit(["a", "b"], [1, 0]), "lr is -1.0"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
