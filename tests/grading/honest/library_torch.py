"""PyTorch does the work, and numpy's arrays come out."""

ANSWERS = {
    "normalize": """import torch


def normalize(x):
    tensor = torch.from_numpy(np.array(x))
    return (tensor / tensor.sum(dim=1, keepdim=True)).numpy()
""",
}
