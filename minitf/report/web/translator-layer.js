function renderLayer() {}
