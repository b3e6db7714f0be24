// What the page does without its server.
const bert = {
  // Click Run in the tab that is open.
  run: () =>
    void [...document.querySelectorAll("button.run")]
      .find((button) => button.offsetParent)
      ?.click(),
  // A tab that is opened shows the result of its texts.
  opened: () => void setTimeout(bert.run, 100),
  // The address names the tab and its values 0, 1, ..., to share or keep them.
  // Long texts have no place in it.
  address: (tab, values) => {
    const query = new URLSearchParams({ tab, ...values }).toString();
    history.replaceState(null, "", query.length < 2000 ? `?${query}` : "?");
    return values;
  },
};
