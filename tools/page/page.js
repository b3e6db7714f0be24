// What the page does without its server.
const bert = {
  // Click Run in the tab that is open.
  run: () =>
    void [...document.querySelectorAll("button.run")]
      .find((button) => button.offsetParent)
      ?.click(),
  // A tab that is opened shows the result of its texts. The first one is opened
  // before the server has read the address, which a run would change.
  isLoaded: false,
  opened: () => void (bert.isLoaded && setTimeout(bert.run, 100)),
  loaded: () => {
    bert.isLoaded = true;
    bert.opened();
  },
  // The address names the tab and its values 0, 1, ..., to share or keep them.
  // Long texts have no place in it.
  address: (tab, values) => {
    const query = new URLSearchParams({ tab, ...values }).toString();
    history.replaceState(null, "", query.length < 2000 ? `?${query}` : "?");
    return values;
  },
};
