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

  let isEdited = false; // since the shown tab was run
  const state = () =>
    isEdited ? "The text has changed since. Run it, or press Ctrl+Enter." : "";

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
      const found = () => shown(".results :is(table, figure, .error)");
      setTimeout(() => found() || run(), 100);
    },
    started: () => ((isEdited = false), ["Running …", off, on]),
    ended: () => [state(), on, off],
    cancelled: () => ["Cancelled.", on, off],
    // The address shows tab and texts, to share or keep; not long ones.
    address: (tab, values) => {
      const query = new URLSearchParams({ tab, values: JSON.stringify(values) });
      const address = query.toString().length < 2000 ? `?${query}` : "?";
      history.replaceState(null, "", address);
      return values;
    },
  };
})();
