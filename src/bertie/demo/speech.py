"""What the demo says, in English and Chinese."""

from collections.abc import Mapping

Speech = Mapping[str, str]

EN: Speech = {
    "title": "bertie: the whole of BERT on text that this machine has. Nothing is downloaded; all of it goes to {out}.",
    "is_there": "{folder} is there from before.",
    "gather": "\n1. Text: paragraphs of prose from Python's documentation and from docstrings, sources read, not run",
    "gathered": "{modules:,} modules, {characters:,} characters, in {folder}",
    "vocabulary": "\n2. Vocabulary: the {size:,} pieces that cut this text into the fewest",
    "on_held_out": "on documents it has not seen",
    "the_vocabulary": "the vocabulary",
    "corpus": "\n3. Corpus: sentences and tokens, ready for pre-training; one document in {nth} is held back",
    "corpus_card": "the corpus",
    "pretrain": "\n4. Pre-training, {minutes:g} min: the network learns to guess masked words, and whether one "
    "sentence follows another",
    "by_count": "Who always says {piece!r}, the most frequent piece, has {words:.1%} of the masked words right; who "
    "always says the same of the pairs, {pairs:.1%}.",
    "step": "   step {step:>5,}: {words:.1%} of the masked words of held-back text right, {pairs:.1%} of the pairs",
    "learned": "On held-back text now: masked words {words:.1%} (without learning: {by_words:.1%}), pairs {pairs:.1%} "
    "(without learning: {by_pairs:.1%}).",
    "finetune": "\n5. Fine-tuning: which of {modules} modules is a sentence from? {train:,} sentences to learn "
    "from; {dev:,} others, of\n   docstrings that no step before this one has read, to be judged by. The same network "
    "with and without step 4.",
    "beside": "   Beside it {model}, which comes with bertie: both frozen, only a head learns from their layers.",
    "network": "accuracy on held-out sentences",
    "mean": "mean",
    "deviation": "deviation",
    "each": "each seed",
    "pretraining": "pre-training",
    "pretrained": "pre-trained",
    "scratch": "from scratch",
    "frozen": "pre-trained, frozen",
    "carried": "{model}, frozen",
    "chance": "by chance",
    "look": "\n6. What it has learned",
    "fill": "Masks filled:",
    "attention": "Where its heads look, on average over {sentences} sentences:",
    "head": "head",
    "layer_head": "layer {layer}, head {head}",
    "before": "word before",
    "itself": "itself",
    "after": "word after",
    "marks": "[CLS], [SEP]",
    "elsewhere": "elsewhere",
    "nearest": "Nearest sentences, by the mean of their vectors:",
    "report": "\n7. The page: open {page}",
    "seconds": "That took {duration}.",
    "next": """
Next, with files of your own:

  bertie vocab YOUR-TEXT --size 8000 --out my-vocabulary
  bertie corpus YOUR-TEXT --vocab my-vocabulary --out my-corpus
  bertie pretrain my-corpus --out my-run --recipe demo --minutes 10
  bertie finetune classify YOUR-LABELS.csv --model my-run/model --out my-task

or go on with what was made here:

  bertie fill {out}/pretrained/model 'Return a new [MASK] of the given shape.'
  bertie evaluate {out}/pretrained {out}/corpus
  bertie predict {out}/finetuned/pretrained {out}/modules/dev.jsonl --out predictions.jsonl""",
    "stopped": "Stopped; what is done is kept. The same command goes on.",
    "finished": "{out} is finished: there is nothing to do. To begin anew, give another --out, or remove that folder.",
}

ZH: Speech = {
    "title": "bertie：在本机已有的文本上走完整个 BERT。不下载任何东西；一切写在 {out}。",
    "is_there": "{folder} 先前已经做好。",
    "gather": "\n1. 文本：Python 文档和 docstring 中的成段文字；只读源码，不运行",
    "gathered": "{modules:,} 个模块，{characters:,} 个字符，在 {folder}",
    "vocabulary": "\n2. 词表：把这些文本切得最少的 {size:,} 个词片",
    "on_held_out": "在没见过的文档上",
    "the_vocabulary": "词表",
    "corpus": "\n3. 语料：句子和词元，可供预训练；每 {nth} 篇文档留出一篇",
    "corpus_card": "语料",
    "pretrain": "\n4. 预训练 {minutes:g} 分钟：网络学习猜被遮住的词，以及一句是否接着另一句",
    "by_count": "总是猜最常见的词片 {piece!r}，能猜对 {words:.1%} 的被遮词；对句对总给同一个答案，能对 {pairs:.1%}。",
    "step": "   第 {step:>5,} 步：留出文本中被遮的词猜对 {words:.1%}，句对 {pairs:.1%}",
    "learned": "现在在留出的文本上：被遮的词 {words:.1%}（不学习：{by_words:.1%}），"
    "句对 {pairs:.1%}（不学习：{by_pairs:.1%}）。",
    "finetune": "\n5. 微调：一句话出自 {modules} 个模块中的哪一个？用 {train:,} 句学习；另用 {dev:,} 句评判，"
    "它们所在的\n   docstring 在此之前没有任何一步读过。同一个网络，做过与没做过第 4 步。",
    "beside": "   旁边是随 bertie 一起提供的 {model}：两者都冻结，只有一个头从各层的输出中学习。",
    "network": "在留出句子上的准确率",
    "mean": "均值",
    "deviation": "标准差",
    "each": "各个种子",
    "pretraining": "预训练",
    "pretrained": "预训练过",
    "scratch": "从头开始",
    "frozen": "预训练过，冻结",
    "carried": "{model}，冻结",
    "chance": "随机猜",
    "look": "\n6. 它学到了什么",
    "fill": "填被遮的词：",
    "attention": "各个头在看哪里，{sentences} 句的平均：",
    "head": "头",
    "layer_head": "第 {layer} 层第 {head} 头",
    "before": "前一个词",
    "itself": "自身",
    "after": "后一个词",
    "marks": "[CLS]、[SEP]",
    "elsewhere": "别处",
    "nearest": "最相近的句子（按各词向量的均值）：",
    "report": "\n7. 页面：打开 {page}",
    "seconds": "用时 {duration}。",
    "next": """
接下来，用你自己的文件：

  bertie vocab YOUR-TEXT --size 8000 --out my-vocabulary
  bertie corpus YOUR-TEXT --vocab my-vocabulary --out my-corpus
  bertie pretrain my-corpus --out my-run --recipe demo --minutes 10
  bertie finetune classify YOUR-LABELS.csv --model my-run/model --out my-task

或者接着用这里做出来的：

  bertie fill {out}/pretrained/model 'Return a new [MASK] of the given shape.'
  bertie evaluate {out}/pretrained {out}/corpus
  bertie predict {out}/finetuned/pretrained {out}/modules/dev.jsonl --out predictions.jsonl""",
    "stopped": "已停下；做完的都已保存。重复同一条命令即可继续。",
    "finished": "{out} 已经完成：没有要做的事。要重新开始，请换一个 --out，或删掉那个文件夹。",
}

SPEECH: Mapping[str, Speech] = {"en": EN, "zh": ZH}
