// On a page that says that the store is away: try again until it is back.
setTimeout(() => location.reload(), 2000);
