"""What the experiments on learned representations need: images, networks, training runs, baselines, evaluation."""
