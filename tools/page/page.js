// What the page does without its server. Functions return the values of
// Gradio's components; `update` changes a property of one.
const bert = (() => {
  const update = (values) => ({ __type__: "update", ...values });
  const on = update({ interactive: true });
  const off = update({ interactive: false });
  const shown = (selector) =>
    [...document.querySelectorAll(selector)].find((e) => e.offsetParent);
  const run = () => void shown("button.run:enabled")?.click();

  addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
  });

  let isEdited = false, isCancelled = false; // since the shown tab was run
  const state = () =>
    isEdited ? "The result is of the text before. Click Run, or press Ctrl+Enter."
    : isCancelled ? "Cancelled." : "";

  // Gradio's own event misses texts that are pasted or deleted.
  addEventListener("input", ({ target }) => {
    if (!target.matches("textarea")) return;
    isEdited = true;
    if (shown("button.run:enabled")) shown("[role=status]").textContent = state();
  });

  return {
    run,
    // A tab that has shown nothing yet shows its first example.
    opened: () => {
      const found = () => shown(".results :is(table, figure, .js-plotly-plot, .error)");
      setTimeout(() => found() || run(), 100);
    },
    started: () => ((isEdited = isCancelled = false), ["Running …", off, on]),
    ended: () => [state(), on, off],
    // The end of a request that is cancelled comes behind it.
    cancelled: () => ((isCancelled = true), [state(), on, off]),
    // The address names the tab and its values 0, 1, ..., to share or keep
    // them. Long texts have no place in it.
    address: (tab, values) => {
      const query = new URLSearchParams({ tab, ...values });
      const address = query.toString().length < 2000 ? `?${query}` : "?";
      history.replaceState(null, "", address);
      return values;
    },
  };
})();
