"""LoRA's thin matrices, and the heads that learned with them, as files in the form of the library peft."""

import json

from safetensors.torch import save
from torch import Tensor

from bertie.model.folder import num_classes
from bertie.model.heads import Model
from bertie.model.lora import MATRICES, LowRank
from bertie.model.names import hf_names

FOLDER = "adapter"  # transformers would take its files for the model's, if they stood beside those


def adapter_files(model: Model) -> dict[str, bytes]:
    """The files by name; none where the model has no LoRA."""
    products = {place: module for place, module in model.named_modules() if isinstance(module, LowRank)}
    if not products:
        return {}
    names = hf_names(model.config, num_classes(model))
    tensors: dict[str, Tensor] = {}
    modules, rank, scale = set(), 0, 0.0
    for place, product in products.items():
        theirs = names[f"{place}.weight"]
        for matrix in product.parts:
            is_own = len(theirs) == MATRICES[matrix].num_parts
            module = theirs[MATRICES[matrix].part if is_own else 0].removesuffix(".weight")
            module = module if is_own else f"{module}.{matrix}"  # rows of a larger matrix: peft has no word for it
            modules.add(module)
            tensors[f"{module}.lora_A.weight"] = product.down[matrix]
            tensors[f"{module}.lora_B.weight"] = product.up[matrix]
            rank, scale = len(product.down[matrix]), product.scale
    state = model.state_dict()
    heads = {theirs[0]: state[ours] for ours, theirs in names.items() if ours.startswith("heads.")}
    config = {
        "peft_type": "LORA",
        "task_type": None,
        "base_model_name_or_path": None,
        "r": rank,
        "lora_alpha": scale * rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted(modules),
        "modules_to_save": sorted({name.rpartition(".")[0] for name in heads}),
    }
    whole = {f"base_model.model.{name}": one.detach().cpu().contiguous() for name, one in {**tensors, **heads}.items()}
    return {
        f"{FOLDER}/adapter_config.json": (json.dumps(config, indent=1) + "\n").encode(),
        f"{FOLDER}/adapter_model.safetensors": save(whole, metadata={"format": "pt"}),
    }
